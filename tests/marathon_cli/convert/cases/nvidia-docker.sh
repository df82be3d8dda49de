#!/bin/sh
# As in nvidia-docker 1's guide, and what came before and after it.
set -e
NV_GPU=0,1 nvidia-docker run -it --rm --name digits -p 5000:5000 -v /mnt/jobs:/jobs nvidia/digits
sudo docker run -d --restart=unless-stopped --gpus '"device=0,2",capabilities=utility' \
    -e KEY=value -e "SENTENCE=it's one" --shm-size=1g --ipc host \
    -v "$PWD/code":/code:ro -w /code --entrypoint python \
    registry.example.org/train:2 main.py --lr 1e-3
docker run --device=/dev/nvidiactl --device=/dev/nvidia-uvm --device=/dev/nvidia0 --device /dev/fuse \
    -v nvidia_driver_375.39:/usr/local/nvidia:ro --cap-add SYS_ADMIN -m 1500m --cpus=2.5 cuda:8.0 nvidia-smi && echo done
docker container run --runtime=nvidia -e NVIDIA_VISIBLE_DEVICES=none -itd cuda:8.0
