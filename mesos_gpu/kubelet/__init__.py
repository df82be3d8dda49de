"""What a kubelet and its neighbours on a machine say to each other: device plugins (v1beta1), pod resources (v1)."""
