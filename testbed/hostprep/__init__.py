"""What a machine needs before a lab: packages, the BPF file system, the node image.

Ansible does the work (playbooks/ of the clone, run through ansible-runner); this package finds the playbooks,
feeds them and reads their outcome. Nothing here touches a lab.
"""

from testbed.hostprep.host import prepare_host
from testbed.hostprep.image import build_image, image_name, observe_image
from testbed.hostprep.observability import prepare_observability
from testbed.hostprep.playbook import PlaybookReport, Progress

__all__ = [
    "PlaybookReport",
    "Progress",
    "build_image",
    "image_name",
    "observe_image",
    "prepare_host",
    "prepare_observability",
]
