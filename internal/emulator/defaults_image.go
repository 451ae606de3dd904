package emulator

import (
	"regexp"
	"strings"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/arm"
)

// images are what a disk has from its image where nobody says so: the first one that fits counts.
// Each was recorded; an image without a publisher is one of the customer's own.
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

// imageOf is the operating system and the size of the disk of the image in a storage profile.
func imageOf(storage object) (system string, sizeGB int) {
	reference := objectAt(storage, "imageReference")
	sku := strings.ToLower(text(reference, "sku"))
	for _, i := range images {
		if (i.publisher == "" || strings.EqualFold(i.publisher, text(reference, "publisher"))) &&
			strings.Contains(sku, i.sku) {
			return i.system, i.sizeGB
		}
	}
	return "", 0
}

// premium are the sizes of machines whose names say that they take premium disks: the s behind the
// number of processors, or DS and GS of old (virtual-machines/vm-naming-conventions; recorded).
var premium = regexp.MustCompile(`(?i)^standard_(?:[dg]s\d|[a-z]+\d+(?:-\d+)?[a-z]*s)`)

// diskType is the type of managed disk that a machine gets where nobody says so.
func diskType(size string) string {
	if premium.MatchString(size) {
		return "Premium_LRS"
	}
	return "Standard_LRS"
}

// secondGeneration reports whether a machine starts from an image of generation 2.
func secondGeneration(storage object) bool {
	sku := strings.ToLower(text(objectAt(storage, "imageReference"), "sku"))
	return strings.Contains(sku, "gen2") || strings.HasSuffix(sku, "-g2")
}

// storageFacts are of a storage profile at a path; vmSize is the machine's.
func storageFacts(at string, vmSize func(sight) string) []fact {
	storage := func(s sight) object {
		return objectAt(s.doc, strings.Split(strings.TrimSuffix(at, "."), ".")...)
	}
	ofDisk := func(s sight) any { return diskType(vmSize(s)) }
	return []fact{
		{path: at + "osDisk", value: object{"createOption": "FromImage", "caching": "None"}},
		{path: at + "osDisk.osType", value: func(s sight) any {
			system, _ := imageOf(storage(s))
			return system
		}},
		{path: at + "osDisk.diskSizeGB", value: func(s sight) any {
			_, size := imageOf(storage(s))
			return size
		}},
		{path: at + "osDisk.managedDisk", value: object{}},
		{path: at + "osDisk.managedDisk.storageAccountType", value: ofDisk},
		{path: at + "osDisk.diffDiskSettings.placement", value: "CacheDisk"},
		{path: at + "dataDisks[].caching", value: "None"},
		{path: at + "dataDisks[].managedDisk", value: object{}},
		{path: at + "dataDisks[].managedDisk.storageAccountType", value: ofDisk},
		{
			path: at + "diskControllerType", value: "SCSI", since: "2022-08-01",
			when: func(s sight) bool { return secondGeneration(s.at) },
		},
	}
}

// systemFacts are of an operating system profile at a path.
func systemFacts(at string, windows func(sight) bool) []fact {
	linux := func(s sight) bool { return !windows(s) }
	return []fact{
		{path: at + "allowExtensionOperations", value: true},
		{path: at + "requireGuestProvisionSignal", value: true},
		{path: at + "secrets", value: []any{}},
		{
			path: at + "linuxConfiguration", value: object{"disablePasswordAuthentication": false},
			when: linux,
		},
		{path: at + "linuxConfiguration.provisionVMAgent", value: true},
		{
			path:  at + "linuxConfiguration.enableVMAgentPlatformUpdates",
			value: false,
			since: "2022-03-01",
		},
		{path: at + "windowsConfiguration", value: object{}, when: windows},
		{path: at + "windowsConfiguration.provisionVMAgent", value: true},
		{path: at + "windowsConfiguration.enableAutomaticUpdates", value: true},
		{
			path:  at + "windowsConfiguration.enableVMAgentPlatformUpdates",
			value: false,
			since: "2022-03-01",
		},
	}
}

// settleMachineProfile takes from the profile of a scale set's machines what Azure does not show
// again, and keeps the image where a PUT leaves it out (recorded).
func settleMachineProfile(r, old *resource) {
	profile := objectAt(r.body, "properties", "virtualMachineProfile")
	for _, secret := range []string{"adminPassword", "customData"} {
		delete(objectAt(profile, "osProfile"), secret)
	}
	interfaces := listAt(objectAt(profile, "networkProfile"), "networkInterfaceConfigurations")
	for _, nic := range interfaces { // az sends "true" in a template
		p := objectAt(nic, "properties")
		if primary, isText := p["primary"].(string); isText {
			p["primary"] = strings.EqualFold(primary, "true")
		}
		if p != nil && len(interfaces) == 1 {
			setDefault(p, "primary", true)
		}
	}
	notice := objectAt(profile, "scheduledEventsProfile", "terminateNotificationProfile")
	if enable, isText := notice["enable"].(string); isText {
		notice["enable"] = strings.EqualFold(enable, "true")
	}
	if old == nil || profile == nil {
		return
	}
	image := objectAt(old.body, "properties", "virtualMachineProfile", "storageProfile")
	if storage := objectAt(profile, "storageProfile"); storage != nil && image != nil {
		setDefault(storage, "imageReference", cloneValue(image["imageReference"]))
	}
}

// systemIdentityFacts are of a resource with an identity that Azure made for it.
func systemIdentityFacts(tenantOf func(string) string) []fact {
	own := func(s sight) bool { return strings.Contains(text(s.at, "type"), "SystemAssigned") }
	return []fact{
		{
			path: "identity.principalId", when: own,
			value: func(s sight) any { return guidOf("principal", s.r.id) },
		},
		{
			path: "identity.tenantId", when: own,
			value: func(s sight) any { return tenantOf(s.r.id.Subscription()) },
		},
	}
}

// guidOf is a GUID that Azure makes for a resource: the same for the same one.
func guidOf(what string, id arm.ID) string {
	return uuid.NewSHA1(uuid.Nil, []byte(what+" "+id.Key())).String()
}
