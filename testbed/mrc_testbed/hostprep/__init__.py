"""The requirements of a machine before a lab: packages, the BPF file system, the node image.

Ansible does the work (playbooks/, run through ansible-runner); this package finds the playbooks,
feeds them and reads their outcome. Nothing here touches a lab.

It re-exports nothing: the SDK of Docker and Ansible are imported by the modules that use them.
"""
