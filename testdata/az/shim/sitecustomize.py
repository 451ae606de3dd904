"""Lets Debian's azure-cli 2.45 run `az network` and `az vmss`, against Azure or a local one.

Debian's package leaves out many of the API versions that the SDKs under the CLI come with, among them the ones that the CLI picks by
default for Microsoft.Network and Microsoft.Compute: those commands end with an ImportError wherever they are sent. This picks two that
the package does have. Python loads a module of this name at its start: PYTHONPATH=<this folder> az ...
The CLI from Microsoft's own packages needs none of this.
"""
try:
    from azure.cli.core.profiles import _shared
except ImportError:
    pass  # some other Python program that was started with this PYTHONPATH
else:
    latest = _shared.AZURE_API_PROFILES["latest"]
    latest[_shared.ResourceType.MGMT_NETWORK] = "2022-07-01"
    compute = latest[_shared.ResourceType.MGMT_COMPUTE].profile
    compute[None] = compute["virtual_machine_scale_sets"] = "2022-08-01"
