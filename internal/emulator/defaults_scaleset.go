package emulator

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

// scaleSetFacts are of scale sets.
func scaleSetFacts() []fact {
	const p, vm = "properties.", "properties.virtualMachineProfile."
	const nic = vm + "networkProfile.networkInterfaceConfigurations[].properties."
	rolling := func(path string, value any) fact {
		return fact{path: p + "upgradePolicy.rollingUpgradePolicy." + path, value: value}
	}
	return []fact{
		{path: "sku.tier", value: "Standard"},
		{
			path: p + "timeCreated",
			value: func(s sight) any {
				return s.r.created.UTC().Format("2006-01-02T15:04:05.9999999-07:00")
			},
			since: "2022-03-01",
		},
		{
			path:  p + "singlePlacementGroup",
			value: true,
			when:  func(s sight) bool { return text(s.at, "orchestrationMode") != "Flexible" },
		},
		{path: p + "doNotRunExtensionsOnOverprovisionedVMs", value: false},
		rolling(
			"maxBatchInstancePercent",
			20,
		), rolling("maxUnhealthyInstancePercent", 20),
		rolling("maxUnhealthyUpgradedInstancePercent", 20),
		rolling(
			"pauseTimeBetweenBatches",
			"PT0S",
		), rolling("maxSurge", false), rolling("rollbackFailedInstancesOnPolicyBreach", false),
		{path: vm + "osProfile.allowExtensionOperations", value: true},
		{path: vm + "osProfile.requireGuestProvisionSignal", value: true},
		{path: vm + "osProfile.secrets", value: []any{}},
		{path: vm + "osProfile.linuxConfiguration.provisionVMAgent", value: true},
		{
			path:  vm + "osProfile.linuxConfiguration.enableVMAgentPlatformUpdates",
			value: false,
			since: "2022-03-01",
		},
		{path: nic + "disableTcpStateTracking", value: false},
		{path: nic + "enableIPForwarding", value: false},
		{path: nic + "enableAcceleratedNetworking", value: false},
		{path: nic + "dnsSettings", value: object{"dnsServers": []any{}}},
		{path: nic + "ipConfigurations[].properties.privateIPAddressVersion", value: "IPv4"},
	}
}
