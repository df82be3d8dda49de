"""The messages of the first minute in simplified Chinese: of `up`, `run`, `app add` and of what refuses them.

Each English message stands as it does in the code, with a name for what is filled in; a message that is not here is
told in English. tests/marathon_cli/screen/test_language.py holds this table against the code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

CHINESE: Mapping[str, str] = {
    # up, down
    "page      {url}": "网页      {url}",
    "state     {folder}": "状态      {folder}",
    "back      from last time: {names}; `mesos-gpu app remove` ends one for good": (
        "恢复      上次的应用：{names}；用 `mesos-gpu app remove` 彻底删除"
    ),
    "access    open: every user of this machine may use it, and run tasks as its owner": (
        "访问      开放：本机所有用户都能使用，并以启动者的身份运行任务"
    ),
    "access    by the credential in {folder}; mesos-gpu finds it by itself": (
        "访问      凭证在 {folder}，mesos-gpu 会自动读取"
    ),
    "agent     {url}  {gpus}, simulated": "agent     {url}  {gpus}，模拟",
    "agent     {url}  {gpus}, simulated ({why})": "agent     {url}  {gpus}，模拟（{why}）",
    "{count} GPUs": "{count} 个 GPU",
    "{count} GPU": "{count} 个 GPU",
    "no NVIDIA driver answers on this machine": "本机没有可用的 NVIDIA 驱动",
    "It runs in the background; `mesos-gpu down --work_dir {folder}` stops it.": (
        "已在后台运行；用 `mesos-gpu down --work_dir {folder}` 停止。"
    ),
    "Ctrl-C stops it all.": "按 Ctrl-C 全部停止。",
    "The box is down: services, tasks and what they held are gone.": "已停止：服务、任务及其占用的资源都已释放。",
    "The box is down; its tasks run on.": "服务已停止，任务继续运行。",
    "The box is down, and its tasks have ended.": "服务已停止，任务也已结束。",
    "At the next `mesos-gpu up` these come back: {names}. `mesos-gpu down --purge` forgets them.": (
        "下次 `mesos-gpu up` 时会恢复：{names}。若不再需要，用 `mesos-gpu down --purge`。"
    ),
    "a box needs what is not here, and nothing was started:": "缺少运行所需的条件，什么都没有启动：",
    "root, for cgroups, mounts and device nodes of tasks: `sudo mesos-gpu up`": (
        "root 权限（任务的 cgroup、挂载和设备节点需要）：`sudo mesos-gpu up`"
    ),
    "a box is already running in {folder}{where}; "
    "`mesos-gpu down` stops it, and another --work_dir makes a second one": (
        "{folder} 中已有正在运行的 box{where}；用 `mesos-gpu down` 停止它，或用另一个 --work_dir 再启动一个"
    ),
    "{service} did not start: {why}": "{service} 启动失败：{why}",
    "mesos-gpu-{service}: {why}": "mesos-gpu-{service}：{why}",
    "port {port} on {ip} is taken by another program; stop that one or choose another port (0: any free one)": (
        "{ip} 的端口 {port} 已被其他程序占用；请停止该程序或换一个端口（0 表示任选空闲端口）"
    ),
    "cannot use {folder} as work_dir: {why}": "无法把 {folder} 用作 work_dir：{why}",
    "the box's supervisor ended without an error message; its log: {file}": "监控进程意外退出，请看日志：{file}",
    "no box runs in {folder}. {advice}": "{folder} 中没有正在运行的 box。{advice}",
    "no box runs in {folder}; `mesos-gpu up` starts one": "{folder} 中没有正在运行的 box；用 `mesos-gpu up` 启动",
    "the box in {folder} belongs to another user. {advice}": "{folder} 中的 box 属于其他用户。{advice}",
    "the box in {folder} no longer runs (its process {pid} is gone). {advice}": (
        "{folder} 中的 box 已不在运行（进程 {pid} 已退出）。{advice}"
    ),
    "Start one with `mesos-gpu up`, or name another Marathon with --marathon-url or MARATHON_URL": (
        "用 `mesos-gpu up` 启动一个，或用 --marathon-url、MARATHON_URL 指定其他 Marathon"
    ),
    # what app add and run say on their way
    "Created deployment {id}: {what}": "已创建部署 {id}：{what}",
    "adds {app}": "新增 {app}",
    "removes {app}": "删除 {app}",
    "step {n} of {count} ({action}): {state}": "第 {n} 步，共 {count} 步（{action}）：{state}",
    "{n} of {count} running": "{count} 个实例中 {n} 个在运行",
    "{n} of {count} running, {others}": "{count} 个实例中 {n} 个在运行，{others}",
    "{app}: {state}": "{app}：{state}",
    "warning: {words}": "警告：{words}",
    "waiting: {why}": "等待中：{why}",
    "interrupted": "已中断",
    "interrupted; {what}": "已中断；{what}",
    "the deployment {id} continues; {advice}": "部署 {id} 仍在继续；{advice}",
    "`mesos-gpu deployment rollback {id}` takes it back": "用 `mesos-gpu deployment rollback {id}` 撤销",
    "`mesos-gpu why {app}` tells more": "用 `mesos-gpu why {app}` 查看原因",
    "{names} is not there yet after {seconds} s; the deployment {id} continues": (
        "{seconds} 秒后 {names} 仍未就绪；部署 {id} 仍在继续"
    ),
    "{app} waits: {why}": "{app} 在等待：{why}",
    "{name} has not started within {seconds} s: {why}": "{name} 在 {seconds} 秒内没有启动：{why}",
    "{name} has not started within {seconds} s": "{name} 在 {seconds} 秒内没有启动",
    "{name} is removed": "{name} 已删除",
    "{name} is stopped": "{name} 已停止",
    "not enough GPUs are free on one machine": "没有哪台机器有足够的空闲 GPU",
    "no offer of resources has come": "还没有收到资源 offer",
    "the next try is in {seconds} s": "{seconds} 秒后重试",
    "No agent could ever run {app}: {wish}. It will wait.": "没有任何 agent 能运行 {app}：{wish}。它会一直等待。",
    "ask for at most {count} GPUs, as many as one agent has (the GPUs of one instance are on one machine)": (
        "最多申请 {count} 个 GPU，即单个 agent 的数量（一个实例的 GPU 都在同一台机器上）"
    ),
    "nearest is {agent}: {words}": "最接近的是 {agent}：{words}",
    "it has {count} GPUs, and {wanted} are wanted": "它有 {count} 个 GPU，而需要 {wanted} 个",
    "its command ends by itself, and Marathon will start it again each time, forever. To run it once: "
    "`mesos-gpu run`, or a job": (
        "它的命令会自行结束，Marathon 会一次次地重新启动它。只运行一次请用 `mesos-gpu run` 或 job"
    ),
    "task {id}: the same again": "任务 {id}：同样的失败",
    "no reason was given": "没有说明原因",
    # what is wrong with a definition
    "{file}: {problems}; nothing was changed": "{file}：{problems}；没有做任何改动",
    "{n} problems": "{n} 个问题",
    "1 problem": "1 个问题",
    "unknown key `{key}`": "未知的键 `{key}`",
    "did you mean `{key}`?": "是不是 `{key}`？",
    "`{key}` must be {kind}, but is {found}": "`{key}` 应为{kind}，实际是 {found}",
    "a number": "数字",
    "a whole number": "整数",
    "text": "文本",
    "the text {text}": "文本 {text}",
    "write {text} without quotes": "去掉引号，写成 {text}",
    "write {count} for whole GPUs; to share a GPU, set `gpuShare` or use `mesos-gpu run --gpu-mem`": (
        "独占整个 GPU 请写成 {count}；与其他任务共享 GPU 请设置 `gpuShare`，或使用 `mesos-gpu run --gpu-mem`"
    ),
    "key `{key}` is there twice": "键 `{key}` 出现了两次",
    "keep one of them": "只保留一个",
    "{file}: no such file": "{file}：文件不存在",
    "{file}: is empty; a definition in JSON or YAML was expected": "{file}：内容为空，应为 JSON 或 YAML 定义",
    "app {app} already exists": "应用 {app} 已存在",
    "An app with id [{app}] already exists.": "id 为 [{app}] 的应用已存在。",
    "`{show}` shows it; `{change}` changes it": "用 `{show}` 查看，用 `{change}` 修改",
    "standard input": "标准输入",
    # run
    "-t needs a terminal to type in, and standard input is none; leave -t out to pipe into it": (
        "-t 需要终端，而标准输入不是终端；用管道输入时请去掉 -t"
    ),
    "without an image a command sees the machine's own files; -v needs an IMAGE": (
        "没有镜像时命令看到的就是本机文件；-v 需要 IMAGE"
    ),
    "--name {name}: a name has lower-case letters, digits, - and ., as in train-2": (
        "--name {name}：名称只能用小写字母、数字、- 和 .，例如 train-2"
    ),
    "/{name} could not be removed: {why}": "/{name} 无法删除：{why}",
    "`mesos-gpu app remove {name}` does it later; its GPUs are taken until then": (
        "稍后用 `mesos-gpu app remove {name}` 删除；在此之前它的 GPU 仍被占用"
    ),
    "how {command} ended is not known: the agent does not tell": "不知道 {command} 的退出状态：agent 没有报告",
}
COMPOSED = (
    "agent     {url}  {gpus}, simulated",
    "agent     {url}  {gpus}, simulated ({why})",
    "mesos-gpu-{service}: {why}",
    "{n} of {count} running, {others}",
    "interrupted; {what}",
    "{names} is not there yet after {seconds} s; the deployment {id} continues",
    "{name} has not started within {seconds} s: {why}",
    "{name} is removed",
    "No agent could ever run {app}: {wish}. It will wait.",
    "ask for at most {count} GPUs, as many as one agent has (the GPUs of one instance are on one machine)",
    "it has {count} GPUs, and {wanted} are wanted",
    "{file}: {problems}; nothing was changed",
    "An app with id [{app}] already exists.",
)
"""Messages that no single string of the code has: it puts them together, or a server sends them."""
NAME = re.compile(r"{(\w+)}")
_FORMS = {
    "app": r"/\S*?",
    "service": r"[a-z0-9 ]+",
    "count": r"\d+",
    "n": r"\d+",
    "wanted": r"\d+",
    "seconds": r"[\d.]+",
}
"""What may be filled in for a name, where not everything may."""
_LOCATED = re.compile(r"(?P<place>\S.*?:\d+:\d+: /\S*: )(?P<words>.*)|(?P<program>mesos-gpu: )(?P<said>.*)")
"""What keeps its place in front: a line of a file with a key, and our own name."""
_DEEPEST = 4


def in_chinese(text: str) -> str:
    """Return a message, of one or more lines, in Chinese as far as it is known here."""
    return "\n".join(_line(line) for line in text.split("\n"))


def _line(line: str) -> str:
    words = line.lstrip(" ")
    return line[: len(line) - len(words)] + _phrase(words, 0)


def _phrase(words: str, depth: int) -> str:
    if depth > _DEEPEST:
        return words
    if (found := _LOCATED.fullmatch(words)) is not None:
        place, said = found["place"] or found["program"], found["words"] or found["said"] or ""
        if (file := place.partition(":")[0]) in CHINESE:
            place = CHINESE[file] + place[len(file) :]
        return place + _phrase(said, depth + 1)
    for pattern, chinese in _patterns():
        if (found := pattern.fullmatch(words)) is not None:
            return chinese.format(**{name: _phrase(value, depth + 1) for name, value in found.groupdict().items()})
    return words


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Return the table as patterns, those with the most words of their own first."""
    rows = sorted(CHINESE.items(), key=lambda row: -len(NAME.sub("", row[0])))
    return tuple((re.compile(_pattern(english)), chinese) for english, chinese in rows)


def _pattern(english: str) -> str:
    parts = NAME.split(english)
    return "".join(
        f"(?P<{part}>{_FORMS.get(part, '.+?')})" if n % 2 else re.escape(part) for n, part in enumerate(parts)
    )
