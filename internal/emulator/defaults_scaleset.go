package emulator

import "time"

// settleExtension fills in an extension of a scale set.
func (s *compute) settleExtension(c *call, r, old *resource) *failure {
	if old == nil {
		r.doing = "Creating"
	}
	p := objectAt(r.body, "properties")
	setDefault(p, "autoUpgradeMinorVersion", false)
	setDefault(p, "settings", object{})
	delete(p, "protectedSettings")
	return nil
}

// flexible reports whether a scale set only keeps its machines together.
func flexible(s sight) bool {
	return text(objectAt(s.doc, "properties"), "orchestrationMode") == "Flexible"
}

func uniform(s sight) bool { return !flexible(s) }

// scaleSetFacts are of scale sets.
func scaleSetFacts(tenantOf func(string) string) []fact {
	const p, vm = "properties.", "properties.virtualMachineProfile."
	const nic = vm + "networkProfile.networkInterfaceConfigurations[].properties."
	const ip = nic + "ipConfigurations[].properties."
	rolling := func(path string, value any) fact {
		return fact{path: p + "upgradePolicy.rollingUpgradePolicy." + path, value: value}
	}
	size := func(s sight) string { return text(objectAt(s.doc, "sku"), "name") }
	windows := func(s sight) bool {
		return text(objectAt(s.doc, "properties", "virtualMachineProfile", "storageProfile",
			"osDisk"), "osType") == "Windows"
	}
	spot := func(s sight) bool { return text(s.at, "priority") == "Spot" }
	repairs := func(s sight) bool { return s.at["enabled"] == true }
	all := []fact{
		{path: "sku.tier", value: "Standard"},
		{
			path:  p + "timeCreated",
			value: func(s sight) any { return computeTime(s.r.created) },
			since: "2022-03-01",
		},
		{path: p + "orchestrationMode", value: "Uniform"},
		{path: p + "overprovision", value: true, when: uniform},
		{path: p + "singlePlacementGroup", value: true, when: uniform},
		{path: p + "singlePlacementGroup", value: false, when: flexible},
		{path: p + "platformFaultDomainCount", value: 1, when: func(s sight) bool {
			return flexible(s) || s.doc["zones"] != nil || s.doc["extendedLocation"] != nil ||
				s.at["spotRestorePolicy"] != nil
		}},
		{path: p + "constrainedMaximumCapacity", value: false, when: flexible},
		{path: p + "doNotRunExtensionsOnOverprovisionedVMs", value: false, when: uniform},
		{path: p + "automaticRepairsPolicy.repairAction", value: "Replace", when: repairs},
		rolling("maxBatchInstancePercent", 20),
		rolling("maxUnhealthyInstancePercent", 20),
		rolling("maxUnhealthyUpgradedInstancePercent", 20),
		rolling("pauseTimeBetweenBatches", "PT0S"),
		rolling("maxSurge", false),
		rolling("rollbackFailedInstancesOnPolicyBreach", false),
		{path: vm + "billingProfile", value: object{"maxPrice": -1}, when: spot},
		{
			path:  vm + "scheduledEventsProfile.terminateNotificationProfile.enable",
			value: true,
		},
		{
			path:  vm + "scheduledEventsProfile.osImageNotificationProfile.notBeforeTimeout",
			value: "PT15M",
		},
		{
			path:  vm + "extensionProfile.extensions[].properties.autoUpgradeMinorVersion",
			value: false,
		},
		{path: nic + "disableTcpStateTracking", value: false},
		{path: nic + "enableIPForwarding", value: false},
		{path: nic + "enableAcceleratedNetworking", value: false},
		{path: nic + "dnsSettings", value: object{"dnsServers": []any{}}},
		{path: nic + "deleteOption", value: "Delete", when: flexible},
		{path: ip + "privateIPAddressVersion", value: "IPv4"},
		{path: ip + "publicIPAddressConfiguration.properties", value: object{}},
		{path: ip + "publicIPAddressConfiguration.properties.ipTags", value: []any{}},
		{
			path:  ip + "publicIPAddressConfiguration.properties.publicIPAddressVersion",
			value: "IPv4",
		},
		{path: vm + "storageProfile.osDisk.deleteOption", value: "Delete", when: flexible},
	}
	all = append(all, emptyLists(flexible, ip+"applicationSecurityGroups",
		ip+"applicationGatewayBackendAddressPools")...)
	for _, field := range []string{"enableAutomaticUpgrade", "manuallyManaged",
		"treatFailureAsDeploymentFailure"} {
		all = append(all, fact{path: vm + "applicationProfile.galleryApplications[]." + field,
			value: false})
	}
	all = append(all, storageFacts(vm+"storageProfile.", size)...)
	all = append(all, systemFacts(vm+"osProfile.", windows)...)
	all = append(all, fact{
		path:  vm + "osProfile.linuxConfiguration.patchSettings",
		value: object{"patchMode": "ImageDefault", "assessmentMode": "ImageDefault"},
		when:  flexible,
	})
	return append(all, systemIdentityFacts(tenantOf)...)
}

// computeTime is a time as Microsoft.Compute writes it.
func computeTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.9999999-07:00") }
