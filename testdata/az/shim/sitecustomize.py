"""Lets Debian's azure-cli 2.45 run `az network` and `az vmss`, against Azure or a local one.

Debian's package leaves out many of the API versions that the SDKs under the CLI come with, among them the ones that the CLI picks by
default for Microsoft.Network and Microsoft.Compute: those commands end with an ImportError wherever they are sent. This picks two that
the package does have. `az role` and the role assignments of `az aks` fail there, too, because
the package's SDK is newer than its CLI. Python loads a module of this name at its start: PYTHONPATH=<this folder> az ...
The CLI from Microsoft's own packages needs none of this.
"""
import functools
import importlib
import importlib.util
import sys

try:
    from azure.cli.core.profiles import _shared
except ImportError:
    pass  # some other Python program that was started with this PYTHONPATH
else:
    latest = _shared.AZURE_API_PROFILES["latest"]
    latest[_shared.ResourceType.MGMT_NETWORK] = "2022-07-01"
    compute = latest[_shared.ResourceType.MGMT_COMPUTE].profile
    compute[None] = compute["virtual_machine_scale_sets"] = "2022-08-01"

    class RoleOperations:
        """`az role` asks for a config that the newer SDK in the package calls _config. `az aks` passes custom_headers, which that SDK hands
        on to the HTTP library, and a UUID for the assignment's name."""

        @staticmethod
        def repair_create(operations):
            create = getattr(operations, "create", None)
            if create is None:
                return

            @functools.wraps(create)
            def repaired(self, scope, name, *args, custom_headers=None, **kwargs):
                return create(self, scope, str(name), *args, **kwargs)

            operations.create = repaired

        def find_spec(self, name, path, target=None):
            if name != "azure.mgmt.authorization":
                return None
            sys.meta_path.remove(self)
            found = importlib.util.find_spec(name)
            load = found.loader.exec_module

            def loaded(module):
                load(module)
                for version in ("v2018_01_01_preview", "v2020_04_01_preview"):
                    operations = importlib.import_module(name + "." + version + ".operations")
                    for kind in ("RoleDefinitionsOperations", "RoleAssignmentsOperations"):
                        if hasattr(operations, kind):
                            getattr(operations, kind).config = property(lambda self: self._config)
                            self.repair_create(getattr(operations, kind))

            found.loader.exec_module = loaded
            return found

    sys.meta_path.insert(0, RoleOperations())
