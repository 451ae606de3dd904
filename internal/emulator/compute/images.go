package compute

import (
	"strings"

	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// images are the defaults that a disk takes from its image; the first match counts. Each was
// recorded; an image without a publisher is a customer's own.
var images = []struct {
	publisher, sku string // sku is a part of its name
	system         string
	sizeGB         int
}{
	{"MicrosoftWindowsServer", "smalldisk", "Windows", 30},
	{"MicrosoftWindowsServer", "", "Windows", 127},
	{"RedHat", "", "Linux", 64},
	{"", "", "Linux", 30},
}

// imageOf returns the operating system and the size of the disk of the image in a storage profile.
func imageOf(storage kernel.Object) (system string, sizeGB int) {
	reference := kernel.ObjectAt(storage, "imageReference")
	sku := strings.ToLower(kernel.Text(reference, "sku"))
	for _, i := range images {
		if (i.publisher == "" || strings.EqualFold(i.publisher,
			kernel.Text(reference, "publisher"))) && strings.Contains(sku, i.sku) {
			return i.system, i.sizeGB
		}
	}
	return "", 0
}

// imageWord is a name in the reference of an image in the marketplace.
var imageWord = lazy.Regexp(`^[\w.-]*$`)

// checkImage refuses an image that cannot exist because of its name. Which images exist is not
// known here.
func checkImage(set *kernel.Resource) *kernel.Failure {
	image := kernel.ObjectAt(set.Body, "properties", "virtualMachineProfile", "storageProfile",
		"imageReference")
	for _, field := range []string{"publisher", "offer", "sku", "version"} {
		if !imageWord().MatchString(kernel.Text(image, field)) {
			return kernel.Bad("InvalidParameter",
				"The value of parameter imageReference.%s is invalid.", field)
		}
	}
	return nil
}

// premium are the machine sizes whose names show support of premium disks: an s after the number of
// processors, or the old DS and GS (virtual-machines/vm-naming-conventions; recorded).
var premium = lazy.Regexp(`(?i)^standard_(?:[dg]s\d|[a-z]+\d+(?:-\d+)?[a-z]*s)`)

// diskType returns a machine's default type of managed disk.
func diskType(size string) string {
	if premium().MatchString(size) {
		return "Premium_LRS"
	}
	return "Standard_LRS"
}

// secondGeneration reports whether a machine's image is of generation 2.
func secondGeneration(storage kernel.Object) bool {
	sku := strings.ToLower(kernel.Text(storage, "imageReference", "sku"))
	return strings.Contains(sku, "gen2") || strings.HasSuffix(sku, "-g2")
}

// storageFacts returns the facts of a storage profile at a path; vmSize is the machine's size.
func storageFacts(at string, vmSize func(kernel.Sight) string) []kernel.Fact {
	storage := func(s kernel.Sight) kernel.Object {
		return kernel.ObjectAt(s.Doc, strings.Split(strings.TrimSuffix(at, "."), ".")...)
	}
	ofDisk := func(s kernel.Sight) any { return diskType(vmSize(s)) }
	return []kernel.Fact{
		{Path: at + "osDisk", Value: kernel.Object{"createOption": "FromImage", "caching": "None"}},
		{Path: at + "osDisk.osType", Value: func(s kernel.Sight) any {
			system, _ := imageOf(storage(s))
			return system
		}},
		{Path: at + "osDisk.diskSizeGB", Value: func(s kernel.Sight) any {
			_, size := imageOf(storage(s))
			return size
		}, When: func(s kernel.Sight) bool {
			return s.At["diffDiskSettings"] == nil || vmSize(s) != ""
		}},
		{Path: at + "osDisk.managedDisk", Value: kernel.Object{}},
		{Path: at + "osDisk.managedDisk.storageAccountType", Value: ofDisk},
		{Path: at + "osDisk.diffDiskSettings.placement", Value: "CacheDisk"},
		{Path: at + "dataDisks[].caching", Value: "None"},
		{Path: at + "dataDisks[].managedDisk", Value: kernel.Object{}},
		{Path: at + "dataDisks[].managedDisk.storageAccountType", Value: ofDisk},
		{Path: at + "diskControllerType", Value: "SCSI", Since: "2022-08-01",
			When: func(s kernel.Sight) bool { return secondGeneration(s.At) }},
	}
}

// systemFacts returns the facts of an operating system profile at a path.
func systemFacts(at string, windows func(kernel.Sight) bool) []kernel.Fact {
	linux := func(s kernel.Sight) bool { return !windows(s) }
	return []kernel.Fact{
		{Path: at + "allowExtensionOperations", Value: true},
		{Path: at + "requireGuestProvisionSignal", Value: true},
		{Path: at + "secrets", Value: []any{}},
		{
			Path: at + "linuxConfiguration", Value: kernel.Object{
				"disablePasswordAuthentication": false},
			When: linux,
		},
		{Path: at + "linuxConfiguration.provisionVMAgent", Value: true},
		{Path: at + "linuxConfiguration.enableVMAgentPlatformUpdates", Value: false,
			Since: "2022-03-01"},
		{Path: at + "windowsConfiguration", Value: kernel.Object{}, When: windows},
		{Path: at + "windowsConfiguration.provisionVMAgent", Value: true},
		{Path: at + "windowsConfiguration.enableAutomaticUpdates", Value: true},
		{Path: at + "windowsConfiguration.enableVMAgentPlatformUpdates", Value: false,
			Since: "2022-03-01"},
	}
}

// settleMachineProfile removes the fields of the machine profile that Azure does not show again.
func settleMachineProfile(r *kernel.Resource) {
	parseBooleans(r.Body["properties"])
	profile := kernel.ObjectAt(r.Body, "properties", "virtualMachineProfile")
	for _, secret := range []string{"adminPassword", "customData"} {
		delete(kernel.ObjectAt(profile, "osProfile"), secret)
	}
	for _, e := range kernel.ListAt(profile, "extensionProfile", "extensions") {
		delete(kernel.ObjectAt(e, "properties"), "protectedSettings")
	}
	interfaces := kernel.ListAt(profile, "networkProfile", "networkInterfaceConfigurations")
	for _, nic := range interfaces {
		p := kernel.ObjectAt(nic, "properties")
		if p != nil && len(interfaces) == 1 {
			kernel.SetDefault(p, "primary", true)
		}
	}
}

// parseBooleans replaces the texts true and false by booleans, because az sends such texts in
// templates (recorded for three fields). The settings of extensions stay as the client sent them.
func parseBooleans(value any) {
	o, _ := value.(kernel.Object)
	for field, inner := range o {
		text, _ := inner.(string)
		switch truth := strings.EqualFold(text, "true"); {
		case field == "settings" || field == "protectedSettings":
		case truth || strings.EqualFold(text, "false"):
			o[field] = truth
		default:
			parseBooleans(inner)
		}
	}
	items, _ := value.([]any)
	for _, item := range items {
		parseBooleans(item)
	}
}
