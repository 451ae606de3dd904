package emulator

import (
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// instanceFields are what an instance has of its scale set's profile as it is there.
var instanceFields = []string{"osProfile", "storageProfile", "securityProfile", "priority",
	"evictionPolicy", "billingProfile", "licenseType", "diagnosticsProfile"}

// document is an instance as Azure shows it, at an api-version. set is its scale set's document.
func (i instance) document(set object, version string, expand bool) object {
	profile := objectAt(set, "properties", "virtualMachineProfile")
	properties := object{
		"provisioningState": "Succeeded", "latestModelApplied": true,
		"modelDefinitionApplied": "VirtualMachineScaleSet", "vmId": guidOf("", i.id()),
		"hardwareProfile": object{"vmSize": text(objectAt(set, "sku"), "name")},
	}
	for _, field := range instanceFields {
		if profile[field] != nil {
			properties[field] = cloneValue(profile[field])
		}
	}
	if network := objectAt(profile, "networkProfile"); network != nil {
		properties["networkProfileConfiguration"] = cloneValue(network)
	}
	if version >= "2022-03-01" {
		properties["timeCreated"] = computeTime(i.set.created)
	}
	system := objectAt(properties, "osProfile")
	if system == nil {
		system = object{}
		properties["osProfile"] = system
	}
	delete(system, "computerNamePrefix")
	system["computerName"] = i.computer
	nics := []any{}
	for _, nic := range i.nics {
		nics = append(nics,
			object{"id": string(nic.id), "properties": object{"primary": nic.primary}})
	}
	properties["networkProfile"] = object{"networkInterfaces": nics}
	i.nameDisks(objectAt(properties, "storageProfile"))
	if expand {
		properties["instanceView"] = i.view(set)
	}
	doc := object{
		"id": string(i.id()), "name": i.set.id.Name() + "_" +
			strconv.Itoa(i.number), "instanceId": strconv.Itoa(i.number),
		"type": arm.TypeScaleSet + "/virtualMachines", "location": set["location"],
		"properties": properties,
	}
	for _, field := range []string{"tags", "identity"} {
		if set[field] != nil {
			doc[field] = set[field]
		}
	}
	if sku := objectAt(set, "sku"); sku != nil {
		doc["sku"] = object{"name": sku["name"], "tier": sku["tier"]}
	}
	if zones := list(set, "zones"); len(zones) > 0 { // round robin
		doc["zones"] = []string{zones[i.number%len(zones)]}
	}
	return doc
}

// nameDisks gives the disks of an instance names and IDs. Which version of its image is the newest
// is nothing that is known here.
func (i instance) nameDisks(storage object) {
	if storage == nil {
		return
	}
	if image := objectAt(storage, "imageReference"); text(image, "publisher") != "" {
		setDefault(image, "exactVersion", "1.0.0")
	}
	name := func(disk object, what string) {
		name := i.diskName(what)
		disk["name"] = name
		if managed := objectAt(disk, "managedDisk"); managed != nil {
			managed["id"] = string(arm.ResourceID(i.set.id.Subscription(), i.set.id.ResourceGroup(),
				"Microsoft.Compute/disks", name))
		}
	}
	if disk := objectAt(storage, "osDisk"); disk != nil {
		name(disk, "OsDisk_1")
	}
	setDefault(storage, "dataDisks", []any{})
	for n, disk := range listAt(storage, "dataDisks") {
		name(disk, "disk"+strconv.Itoa(n+2))
		setDefault(disk, "toBeDetached", false)
	}
}

// maxDiskName is the longest name of a disk.
const maxDiskName = 80

// diskName is how Azure names a disk of an instance (recorded).
func (i instance) diskName(what string) string {
	set, machine := i.set.id.Name(), i.set.id.Name()+"_"+strconv.Itoa(i.number)
	suffix := strings.ReplaceAll(guidOf(what, i.id()), "-", "")
	if whole := set + "_" + machine + "_" + what + "_" + suffix; len(whole) <= maxDiskName {
		return whole
	}
	if what == "OsDisk_1" {
		what = "OS__1"
	}
	return set[:min(len(set), 20)] + machine[:min(len(machine), 21)] + what + "_" + suffix
}

// view is the instance view. Nothing runs on the machines: they are up.
func (i instance) view(set object) object {
	h := fnv.New32a()
	h.Write([]byte(i.set.id.Key()))
	at := computeTime(i.set.created)
	succeeded := object{"code": "ProvisioningState/succeeded", "level": "Info",
		"displayStatus": "Provisioning succeeded", "time": at}
	disks := []any{}
	if objectAt(set, "properties", "virtualMachineProfile", "storageProfile") != nil {
		disks = append(disks, object{"name": i.diskName("OsDisk_1"), "statuses": []any{succeeded}})
	}
	return object{
		"placementGroupId": guidOf("placement", i.set.id), "computerName": i.computer,
		"platformUpdateDomain": i.number % 5, "platformFaultDomain": i.number % 5,
		"hyperVGeneration": "V1", "disks": disks,
		"vmAgent": object{
			"vmAgentVersion": "2.2.45", "extensionHandlers": []any{}, "statuses": []any{object{
				"code": "ProvisioningState/succeeded", "level": "Info", "displayStatus": "Ready",
				"message": "Guest Agent is running", "time": time.Now().UTC().Format(time.RFC3339),
			}},
		},
		"statuses": []any{succeeded, statuses()[1]},
	}
}

// showInterface adds to an interface of an instance what it has of the set's profile, and what
// Azure alone says.
func (n instanceNIC) showInterface(of instance, properties object) {
	properties["resourceGuid"] = guidOf("interface", n.id)
	properties["macAddress"] = hardwareAddress(n.id)
	dns := object{"dnsServers": []any{}, "appliedDnsServers": []any{}}
	if suffix := internalSuffix(object{"properties": properties}); suffix != nil {
		dns["internalDomainNameSuffix"] = suffix
	}
	properties["dnsSettings"] = dns
	profile := objectAt(of.set.body, "properties", "virtualMachineProfile", "networkProfile")
	for _, c := range listAt(profile, "networkInterfaceConfigurations") {
		if !strings.EqualFold(text(c, "name"), n.id.Name()) {
			continue
		}
		properties["enableIPForwarding"] = objectAt(c, "properties")["enableIPForwarding"] == true
		for _, wanted := range listAt(objectAt(c, "properties"), "ipConfigurations") {
			for _, have := range listAt(properties, "ipConfigurations") {
				if strings.EqualFold(text(wanted, "name"), text(have, "name")) {
					balance(of.number, objectAt(wanted, "properties"), objectAt(have, "properties"))
				}
			}
		}
	}
}

// balance gives an IP configuration its place in the pools of a load balancer: of a NAT pool each
// instance has a rule of its own.
func balance(number int, wanted, have object) {
	if pools := wanted["loadBalancerBackendAddressPools"]; pools != nil {
		have["loadBalancerBackendAddressPools"] = cloneValue(pools)
	}
	rules := []any{}
	for _, pool := range listAt(wanted, "loadBalancerInboundNatPools") {
		id := arm.ID(text(pool, "id"))
		rules = append(rules, object{"id": string(id.Parent().Child("inboundNatRules",
			id.Name()+"."+strconv.Itoa(number)))})
	}
	if len(rules) > 0 {
		have["loadBalancerInboundNatRules"] = rules
	}
}
