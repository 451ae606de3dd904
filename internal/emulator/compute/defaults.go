package compute

import (
	"time"

	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// settleExtension fills in an extension of a scale set.
func (s *Compute) settleExtension(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	if old == nil {
		r.Doing = "Creating"
	}
	p := r.Properties()
	kernel.SetDefault(p, "autoUpgradeMinorVersion", false)
	kernel.SetDefault(p, "settings", kernel.Object{})
	delete(p, "protectedSettings")
	return nil
}

// flexible reports whether a scale set has flexible orchestration.
func flexible(s kernel.Sight) bool {
	return kernel.Text(s.Doc, "properties", "orchestrationMode") == "Flexible"
}

func uniform(s kernel.Sight) bool { return !flexible(s) }

// scaleSetFacts returns the facts of scale sets.
func scaleSetFacts() []kernel.Fact {
	const p, vm = "properties.", "properties.virtualMachineProfile."
	const nic = vm + "networkProfile.networkInterfaceConfigurations[].properties."
	const ip = nic + "ipConfigurations[].properties."
	rolling := func(path string, value any) kernel.Fact {
		return kernel.Fact{Path: p + "upgradePolicy.rollingUpgradePolicy." + path, Value: value}
	}
	size := func(s kernel.Sight) string {
		return kernel.Text(s.Doc, "sku", "name")
	}
	windows := func(s kernel.Sight) bool {
		return kernel.Text(s.Doc, "properties", "virtualMachineProfile", "storageProfile", "osDisk",
			"osType") == "Windows"
	}
	spot := func(s kernel.Sight) bool { return kernel.Text(s.At, "priority") == "Spot" }
	repairs := func(s kernel.Sight) bool { return s.At["enabled"] == true }
	all := []kernel.Fact{
		{Path: "sku.tier", Value: "Standard"},
		{Path: p + "timeCreated", Since: "2022-03-01",
			Value: func(s kernel.Sight) any { return computeTime(s.R.Created) }},
		{Path: p + "orchestrationMode", Value: "Uniform"},
		{Path: p + "overprovision", Value: true, When: uniform},
		{Path: p + "singlePlacementGroup", Value: true, When: uniform},
		{Path: p + "singlePlacementGroup", Value: false, When: flexible},
		{Path: p + "platformFaultDomainCount", Value: 1, When: func(s kernel.Sight) bool {
			return flexible(s) || s.Doc["zones"] != nil || s.Doc["extendedLocation"] != nil ||
				s.At["spotRestorePolicy"] != nil
		}},
		{Path: p + "constrainedMaximumCapacity", Value: false, When: flexible},
		{Path: p + "doNotRunExtensionsOnOverprovisionedVMs", Value: false, When: uniform},
		{Path: p + "automaticRepairsPolicy.repairAction", Value: "Replace", When: repairs},
		rolling("maxBatchInstancePercent", 20),
		rolling("maxUnhealthyInstancePercent", 20),
		rolling("maxUnhealthyUpgradedInstancePercent", 20),
		rolling("pauseTimeBetweenBatches", "PT0S"),
		rolling("maxSurge", false),
		rolling("rollbackFailedInstancesOnPolicyBreach", false),
		{Path: vm + "billingProfile", Value: kernel.Object{"maxPrice": -1}, When: spot},
		{Path: vm + "scheduledEventsProfile.terminateNotificationProfile.enable", Value: true},
		{Path: vm + "scheduledEventsProfile.osImageNotificationProfile.notBeforeTimeout",
			Value: "PT15M"},
		{Path: vm + "extensionProfile.extensions[].properties.autoUpgradeMinorVersion",
			Value: false},
		{Path: nic + "disableTcpStateTracking", Value: false},
		{Path: nic + "enableIPForwarding", Value: false},
		{Path: nic + "enableAcceleratedNetworking", Value: false},
		{Path: nic + "dnsSettings", Value: kernel.Object{"dnsServers": []any{}}},
		{Path: nic + "deleteOption", Value: "Delete", When: flexible},
		{Path: ip + "privateIPAddressVersion", Value: "IPv4"},
		{Path: ip + "publicIPAddressConfiguration.properties", Value: kernel.Object{}},
		{Path: ip + "publicIPAddressConfiguration.properties.ipTags", Value: []any{}},
		{Path: ip + "publicIPAddressConfiguration.properties.publicIPAddressVersion",
			Value: "IPv4"},
		{Path: vm + "storageProfile.osDisk.deleteOption", Value: "Delete", When: flexible},
	}
	all = append(all, kernel.EmptyLists(flexible, ip+"applicationSecurityGroups",
		ip+"applicationGatewayBackendAddressPools")...)
	for _, field := range []string{"enableAutomaticUpgrade", "manuallyManaged",
		"treatFailureAsDeploymentFailure"} {
		all = append(all, kernel.Fact{Path: vm + "applicationProfile.galleryApplications[]." +
			field, Value: false})
	}
	all = append(all, storageFacts(vm+"storageProfile.", size)...)
	all = append(all, systemFacts(vm+"osProfile.", windows)...)
	all = append(all, kernel.Fact{Path: vm + "osProfile.linuxConfiguration.patchSettings",
		Value: kernel.Object{"patchMode": "ImageDefault", "assessmentMode": "ImageDefault"},
		When:  flexible})
	return all
}

// computeTime returns a time as Microsoft.Compute writes it.
func computeTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.9999999-07:00") }
