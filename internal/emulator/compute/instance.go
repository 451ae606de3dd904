package compute

import (
	"cmp"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/emulator/network"
)

// instanceFields are copied from the scale set's profile to an instance.
var instanceFields = []string{"osProfile", "storageProfile", "securityProfile", "priority",
	"evictionPolicy", "billingProfile", "licenseType", "diagnosticsProfile"}

// document returns an instance as Azure shows it, at an api-version. set is its scale set's
// document.
func (i Instance) document(set kernel.Object, version string, expand string) kernel.Object {
	profile := kernel.ObjectAt(set, "properties", "virtualMachineProfile")
	properties := kernel.Object{
		"provisioningState":      "Succeeded",
		"modelDefinitionApplied": "VirtualMachineScaleSet", "vmId": kernel.GuidOf("", i.id()),
		"hardwareProfile": kernel.Object{"vmSize": kernel.Text(set, "sku", "name")},
	}
	for _, field := range instanceFields {
		if profile[field] != nil {
			properties[field] = kernel.CloneValue(profile[field])
		}
	}
	if network := kernel.ObjectAt(profile, "networkProfile"); network != nil {
		properties["networkProfileConfiguration"] = kernel.CloneValue(network)
	}
	if version >= "2022-03-01" {
		properties["timeCreated"] = computeTime(i.Set.Created)
	}
	system := kernel.ObjectAt(properties, "osProfile")
	if system == nil {
		system = kernel.Object{}
		properties["osProfile"] = system
	}
	delete(system, "computerNamePrefix")
	system["computerName"] = i.Computer
	nics := []any{}
	for _, nic := range i.Nics {
		nics = append(nics,
			kernel.Object{"id": string(nic.ID),
				"properties": kernel.Object{"primary": nic.Primary}})
	}
	properties["networkProfile"] = kernel.Object{"networkInterfaces": nics}
	i.nameDisks(kernel.ObjectAt(properties, "storageProfile"))
	if strings.EqualFold(expand, "instanceView") {
		properties["instanceView"] = i.view(set)
	}
	doc := kernel.Object{
		"id": string(i.id()), "name": i.Set.ID.Name() + "_" +
			strconv.Itoa(i.Number), "instanceId": strconv.Itoa(i.Number),
		"type": arm.TypeScaleSet + "/virtualMachines", "location": set["location"],
		"properties": properties,
	}
	for _, field := range []string{"tags", "identity"} {
		if set[field] != nil {
			doc[field] = set[field]
		}
	}
	if sku := kernel.ObjectAt(set, "sku"); sku != nil {
		doc["sku"] = kernel.Object{"name": sku["name"], "tier": sku["tier"]}
	}
	if zones := kernel.List(set, "zones"); len(zones) > 0 { // round robin
		doc["zones"] = []string{zones[i.Number%len(zones)]}
	}
	i.showMachine(doc, strings.EqualFold(expand, "userData"))
	return doc
}

// nameDisks gives the disks of an instance names and IDs. The newest version of its image is not
// known here.
func (i Instance) nameDisks(storage kernel.Object) {
	if storage == nil {
		return
	}
	if image := kernel.ObjectAt(storage, "imageReference"); kernel.Text(image, "publisher") != "" {
		kernel.SetDefault(image, "exactVersion", "1.0.0")
	}
	name := func(disk kernel.Object, what string) {
		name := i.diskName(what)
		disk["name"] = name
		if managed := kernel.ObjectAt(disk, "managedDisk"); managed != nil {
			managed["id"] = string(arm.ResourceID(i.Set.ID.Subscription(), i.Set.ID.ResourceGroup(),
				"Microsoft.Compute/disks", name))
		}
	}
	if disk := kernel.ObjectAt(storage, "osDisk"); disk != nil {
		name(disk, "OsDisk_1")
	}
	kernel.SetDefault(storage, "dataDisks", []any{})
	for n, disk := range kernel.ListAt(storage, "dataDisks") {
		name(disk, "disk"+strconv.Itoa(n+2))
		kernel.SetDefault(disk, "toBeDetached", false)
	}
}

// maxDiskName is the longest name of a disk.
const maxDiskName = 80

// diskName returns how Azure names a disk of an instance (recorded).
func (i Instance) diskName(what string) string {
	set, machine := i.Set.ID.Name(), i.Set.ID.Name()+"_"+strconv.Itoa(i.Number)
	suffix := strings.ReplaceAll(kernel.GuidOf(what, i.id()), "-", "")
	if whole := set + "_" + machine + "_" + what + "_" + suffix; len(whole) <= maxDiskName {
		return whole
	}
	if what == "OsDisk_1" {
		what = "OS__1"
	}
	return set[:min(len(set), 20)] + machine[:min(len(machine), 21)] + what + "_" + suffix
}

// view returns the instance view. No machine really runs, so the view shows the result of the last
// action. The view of a deallocated machine has no computer and no agent.
func (i Instance) view(set kernel.Object) kernel.Object {
	h := fnv.New32a()
	h.Write([]byte(i.Set.ID.Key()))
	at := computeTime(i.Set.Created)
	succeeded := kernel.Object{"code": "ProvisioningState/succeeded", "level": "Info",
		"displayStatus": "Provisioning succeeded", "time": at}
	disks := []any{}
	if kernel.ObjectAt(set, "properties", "virtualMachineProfile", "storageProfile") != nil {
		disks = append(disks,
			kernel.Object{"name": i.diskName("OsDisk_1"), "statuses": []any{succeeded}})
	}
	out := kernel.Object{
		"placementGroupId": kernel.GuidOf("placement", i.Set.ID), "computerName": i.Computer,
		"platformUpdateDomain": i.Number % 5, "platformFaultDomain": i.Number % 5,
		"hyperVGeneration": "V1", "disks": disks,
		"vmAgent": kernel.Object{
			"vmAgentVersion": "2.2.45", "extensionHandlers": []any{}, "statuses": []any{
				kernel.Object{
					"code": "ProvisioningState/succeeded", "level": "Info",
					"displayStatus": "Ready",
					"message":       "Guest Agent is running", "time": time.Now().UTC().Format(
						time.RFC3339),
				}},
		},
		"statuses": []any{succeeded, kernel.Object{"code": "PowerState/" + i.power(),
			"level": "Info", "displayStatus": "VM " + i.power()}},
	}
	if i.power() == "deallocated" {
		delete(out, "computerName")
		delete(out, "vmAgent")
	}
	return out
}

// showInterface adds the fields of the set's profile to an instance's interface, and the fields
// that only Azure fills in.
func (n InstanceNIC) showInterface(of Instance, properties kernel.Object) {
	properties["resourceGuid"] = kernel.GuidOf("interface", n.ID)
	properties["macAddress"] = network.HardwareAddress(n.ID)
	dns := kernel.Object{"dnsServers": []any{}, "appliedDnsServers": []any{}}
	if suffix := network.InternalSuffix(kernel.Object{"properties": properties}); suffix != nil {
		dns["internalDomainNameSuffix"] = suffix
	}
	properties["dnsSettings"] = dns
	profile := n.profile(of.Set)
	properties["enableIPForwarding"] = profile["enableIPForwarding"] == true
	for _, wanted := range kernel.ListAt(profile, "ipConfigurations") {
		have := kernel.Named(kernel.ListAt(properties, "ipConfigurations"),
			kernel.Text(wanted, "name"))
		if have != nil {
			balance(of.Number, kernel.ObjectAt(wanted, "properties"),
				kernel.ObjectAt(have, "properties"))
		}
	}
}

// balance puts an IP configuration into the pools of a load balancer: in a NAT pool each instance
// has its own rule.
func balance(number int, wanted, have kernel.Object) {
	if pools := wanted["loadBalancerBackendAddressPools"]; pools != nil {
		have["loadBalancerBackendAddressPools"] = kernel.CloneValue(pools)
	}
	rules := []any{}
	for _, pool := range kernel.ListAt(wanted, "loadBalancerInboundNatPools") {
		id := arm.ID(kernel.Text(pool, "id"))
		rules = append(rules,
			arm.Link(id.Parent().Child("inboundNatRules", id.Name()+"."+strconv.Itoa(number))))
	}
	if len(rules) > 0 {
		have["loadBalancerInboundNatRules"] = rules
	}
}

// publicAddresses returns the public IP addresses that the set's profile gives its instances.
func (s *Compute) publicAddresses(all []Instance) (out []kernel.Object) {
	for _, i := range all {
		for _, nic := range i.Nics {
			for _, c := range kernel.ListAt(nic.profile(i.Set), "ipConfigurations") {
				asked := kernel.ObjectAt(c, "properties", "publicIPAddressConfiguration")
				if asked == nil {
					continue
				}
				configuration := nic.ID.Child("ipConfigurations", kernel.Text(c, "name"))
				id := configuration.Child("publicIPAddresses", kernel.Text(asked, "name"))
				properties := kernel.Object{"provisioningState": "Succeeded",
					"resourceGuid":             kernel.GuidOf("address", id),
					"publicIPAllocationMethod": "Dynamic", "publicIPAddressVersion": "IPv4",
					"idleTimeoutInMinutes": 4, "ipTags": []any{},
					"ipAddress":       s.network.PublicAddress(id, false).String(),
					"ipConfiguration": arm.Link(configuration)}
				for field, value := range kernel.ObjectAt(asked, "properties") {
					properties[field] = kernel.CloneValue(value)
				}
				nameMachine(kernel.ObjectAt(properties, "dnsSettings"), i)
				out = append(out, kernel.Object{"name": id.Name(), "id": string(id),
					"etag": i.Set.Tag(), "properties": properties,
					"sku": kernel.Object{"name": cmp.Or(kernel.Text(asked, "sku",
						"name"), "Basic")}})
			}
		}
	}
	return out
}

// nameMachine gives an instance's public IP address its own DNS name below the set's.
func nameMachine(dns kernel.Object, i Instance) {
	if label := kernel.Text(dns, "domainNameLabel"); label != "" {
		label = "vm" + strconv.Itoa(i.Number) + "." + label
		dns["domainNameLabel"] = label
		dns["fqdn"] = label + "." + kernel.Text(i.Set.Body, "location") + ".cloudapp.azure.com"
	}
}

// profile returns the properties that the set's profile has for an interface.
func (n InstanceNIC) profile(set *kernel.Resource) kernel.Object {
	all := kernel.ListAt(set.Body, "properties", "virtualMachineProfile", "networkProfile",
		"networkInterfaceConfigurations")
	return kernel.ObjectAt(kernel.Named(all, n.ID.Name()), "properties")
}
