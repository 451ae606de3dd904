package emulator

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/compute"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

const machinesSubnet = `"subnet":{"id":"` + string(vnet) + `/subnets/a"}`

func scaleSet(size, image string, capacity int) string {
	return fmt.Sprintf(`{"location":"westeurope","sku":{"name":%q,"capacity":%d},"properties":{`+
		`"virtualMachineProfile":{"storageProfile":{"imageReference":%s,"osDisk":{"createOption":`+
		`"FromImage"}},"osProfile":{"computerNamePrefix":"m","adminPassword":"secret"},`+
		`"networkProfile":{"networkInterfaceConfigurations":[{"name":"nic","properties":{"primary":`+
		`"true","ipConfigurations":[{"name":"c","properties":{%s}}]}}]}}}}`, size, capacity, image,
		machinesSubnet)
}

var machines = arm.ResourceID(sub, group.Name(), arm.TypeScaleSet, "machines")

// TestScaleSetDefaults: Azure's defaults for machines, by size and image.
func TestScaleSetDefaults(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	const windows = `{"publisher":"MicrosoftWindowsServer","offer":"WindowsServer","sku":"2022"}`
	const ubuntu = `{"publisher":"canonical","offer":"server","sku":"20_04-lts-gen2"}`
	for _, x := range []struct {
		size, image, wantDisk, wantSystem, wantConfiguration, wantController string
		wantSize                                                             string
	}{
		{"Standard_DS1_v2", ubuntu, "Premium_LRS", "Linux", "linuxConfiguration", "SCSI", "30"},
		{"Standard_D2_v2", windows, "Standard_LRS", "Windows", "windowsConfiguration", "", "127"},
		{"Standard_D2s_v3", windows, "Premium_LRS", "Windows", "windowsConfiguration", "", "127"},
	} {
		id := machines + arm.ID(strings.ReplaceAll(x.size, "_", ""))
		b.put(id, scaleSet(x.size, x.image, 1))
		profile := kernel.ObjectAt(b.get(id), "properties", "virtualMachineProfile")
		storage, system := kernel.ObjectAt(profile, "storageProfile"), kernel.ObjectAt(profile,
			"osProfile")
		disk := kernel.ObjectAt(storage, "osDisk")
		if kernel.Text(disk, "managedDisk", "storageAccountType") != x.wantDisk || kernel.Text(disk,
			"osType") != x.wantSystem || fmt.Sprint(disk["diskSizeGB"]) != x.wantSize ||
			kernel.Text(storage, "diskControllerType") != x.wantController {
			t.Errorf("%s %s: %v", x.size, x.image, storage)
		}
		if kernel.ObjectAt(system, x.wantConfiguration)["provisionVMAgent"] != true ||
			system["adminPassword"] != nil {
			t.Errorf("%s: %v", x.image, system)
		}
		// A PUT without the image keeps it, and an instance shows all of it.
		b.put(id, scaleSet(x.size, "null", 1))
		all := b.get(id + "/virtualMachines")
		one := kernel.ObjectAt(kernel.ListAt(all, "value")[0], "properties")
		if kernel.Text(one, "storageProfile", "imageReference", "publisher") == "" ||
			kernel.Text(one, "storageProfile", "osDisk", "osType") != x.wantSystem ||
			kernel.Text(one, "hardwareProfile", "vmSize") != x.size ||
			!strings.HasPrefix(kernel.Text(one, "osProfile", "computerName"), "m00") {
			t.Errorf("%s: %v", x.image, one)
		}
	}
}

// TestImpossibleImage: a name that no publisher, offer or version can have is refused (recorded).
func TestImpossibleImage(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	b.refused(http.MethodPut, machines, scaleSet("Standard_D2_v2",
		`{"publisher":"no publisher","offer":"server","sku":"1"}`, 1), 400, "InvalidParameter")
}

// TestInstancePublicAddresses: a set whose profile asks for them lists the public IP addresses of
// its instances, each with a name of its own.
func TestInstancePublicAddresses(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	b.put(machines, strings.Replace(scaleSet("Standard_D2_v2", "null", 2), machinesSubnet,
		machinesSubnet+`,"publicIPAddressConfiguration":{"name":"pub","properties":`+
			`{"idleTimeoutInMinutes":10,"dnsSettings":{"domainNameLabel":"m"}}}`, 1))
	all := kernel.ListAt(b.get(machines+"/publicIPAddresses"), "value")
	if len(all) != 2 {
		t.Fatalf("%d addresses", len(all))
	}
	seen := map[string]bool{}
	for _, one := range all {
		p := kernel.ObjectAt(one, "properties")
		seen[kernel.Text(p, "ipAddress")] = true
		number := strings.Split(strings.TrimPrefix(kernel.Text(one, "id"), string(machines)), "/")[2]
		if name := kernel.Text(p, "dnsSettings", "fqdn"); name != "vm"+number+
			".m.westeurope.cloudapp.azure.com" || fmt.Sprint(p["idleTimeoutInMinutes"]) != "10" {
			t.Errorf("%v", one)
		}
	}
	if len(seen) != 2 {
		t.Errorf("the addresses are %v", seen)
	}
}

// TestSurplusMachines: a set that overprovisions takes twice the addresses until some time after
// the operation.
func TestSurplusMachines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{OperationTime: 8 * time.Second})
		b.put(rt, `{"location":"westeurope"}`)
		b.put(vnet, plainVNet)
		time.Sleep(8 * time.Second)
		b.put(machines, scaleSet("Standard_DS1_v2", "null", 2))
		count := func() (held, nics, instances int) {
			held = len(kernel.ListAt(b.get(vnet+"/subnets/a"), "properties", "ipConfigurations"))
			return held, len(kernel.ListAt(b.get(machines+"/networkInterfaces"), "value")),
				len(kernel.ListAt(b.get(machines+"/virtualMachines"), "value"))
		}
		time.Sleep(8 * time.Second)
		if held, nics, instances := count(); held != 4 || nics != 4 || instances != 2 {
			t.Errorf("when it is done: %d addresses, %d interfaces, %d instances", held, nics,
				instances)
		}
		if doc := b.get(machines); strings.Contains(string(kernel.Encode(doc)),
			compute.SurplusField) {
			t.Errorf("the document shows its surplus: %v", doc)
		}
		time.Sleep(4 * time.Second)
		if held, nics, instances := count(); held != 2 || nics != 2 || instances != 2 {
			t.Errorf("afterwards: %d addresses, %d interfaces, %d instances", held, nics, instances)
		}
	})
}

// TestEvictedMachine: a spot machine with the policy Delete is deleted when it is evicted.
func TestEvictedMachine(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	b.put(machines, strings.Replace(scaleSet("Standard_DS1_v2", "null", 2),
		`"virtualMachineProfile":{`,
		`"virtualMachineProfile":{"priority":"Spot","evictionPolicy":"Delete",`, 1))
	first := kernel.Text(kernel.ListAt(b.get(machines+"/virtualMachines"), "value")[0],
		"instanceId")
	one := machines + "/virtualMachines/" + arm.ID(first)
	if status, body := b.try(http.MethodPost, one+"/simulateEviction", api, ""); status != 204 {
		t.Fatalf("%d %s", status, body)
	}
	b.refused(http.MethodGet, one, "", 404, "NotFound")
	if left := len(kernel.ListAt(b.get(machines+"/virtualMachines"), "value")); left != 1 {
		t.Errorf("%d are left", left)
	}
}

// TestMachines: what is done to one machine of a scale set shows on that machine, and survives a
// write of the set; a changed model is old on machines until they are upgraded.
func TestMachines(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	set := strings.Replace(scaleSet("Standard_DS1_v2", "null", 2), `"properties":{`,
		`"properties":{"overprovision":false,`, 1)
	b.put(machines, set)
	first := machines.Child("virtualMachines", "0")
	power := func(id arm.ID) string {
		doc := b.get(id + "/instanceView")
		if state := kernel.Text(kernel.ListAt(doc, "statuses")[1], "code"); state ==
			"PowerState/deallocated" && doc["vmAgent"] == nil {
			return "deallocated without an agent"
		} else {
			return state
		}
	}
	for _, tt := range []struct {
		on, body, first, second string
	}{
		{"/start", ``, "PowerState/running", "PowerState/running"},
		{"/virtualMachines/0/deallocate", ``, "deallocated without an agent", "PowerState/running"},
		{"/powerOff", `{"instanceIds":["1"]}`, "deallocated without an agent",
			"PowerState/stopped"},
		{"/restart", `{"instanceIds":["*"]}`, "PowerState/running", "PowerState/running"},
	} {
		if status, answer := b.try(http.MethodPost, machines+arm.ID(tt.on), api, tt.body); status >
			202 {
			t.Fatalf("%s: %d %s", tt.on, status, answer)
		}
		if f, s := power(first), power(machines.Child("virtualMachines", "1")); f != tt.first ||
			s != tt.second {
			t.Errorf("after %s: %s, %s", tt.on, f, s)
		}
	}
	disk := arm.ResourceID(sub, group.Name(), "Microsoft.Compute/disks", "d1")
	b.put(disk, `{"location":"westeurope","sku":{"name":"Standard_LRS"},
		"properties":{"diskSizeGB":8}}`)
	b.put(first, `{"location":"westeurope","tags":{"a":"b"},"properties":{
		"protectionPolicy":{"protectFromScaleIn":true},"userData":"dXNlcg==",
		"storageProfile":{"dataDisks":[{"lun":0,"managedDisk":{"id":"`+string(disk)+`"}}]}}}`)
	b.put(machines, set)
	doc := b.get(first)
	p := kernel.ObjectAt(doc, "properties")
	attached := kernel.ListAt(p, "storageProfile", "dataDisks")
	if kernel.ObjectAt(doc, "tags")["a"] != "b" || p["userData"] != nil ||
		kernel.ObjectAt(p, "protectionPolicy")["protectFromScaleIn"] != true ||
		len(attached) != 1 || kernel.Text(attached[0], "name") != "d1" ||
		kernel.NumberOf(attached[0], "diskSizeGB") != 8 || p["latestModelApplied"] != true {
		t.Errorf("the machine after its PUT: %s", kernel.Encode(doc))
	}
	b.put(machines, strings.Replace(set, `"computerNamePrefix":"m"`, `"computerNamePrefix":"n"`, 1))
	if p := b.properties(first); p["latestModelApplied"] != false {
		t.Error("the machine has a new model without an upgrade")
	}
	b.must(t, http.MethodPost, machines+"/manualupgrade", `{"instanceIds":["0"]}`)
	if p := b.properties(first); p["latestModelApplied"] != true {
		t.Error("the upgraded machine has an old model")
	}
	b.delete(first)
	if status, _ := b.try(http.MethodGet, first, api, ""); status != 404 ||
		fmt.Sprint(kernel.ObjectAt(b.get(machines), "sku")["capacity"]) != "1" {
		t.Errorf("after the delete: %d, %s", status, kernel.Encode(b.get(machines)))
	}
}

// TestEmptyCapabilities: azurerm sends an empty object for every machine, and takes one in the
// answer for a change.
func TestEmptyCapabilities(t *testing.T) {
	b := newBench(t, Options{})
	vm := arm.ResourceID(sub, group.Name(), "Microsoft.Compute/virtualMachines", "m")
	for sent, want := range map[string]bool{`{}`: false, `{"ultraSSDEnabled":false}`: true} {
		b.put(vm, `{"location":"westeurope","properties":{"additionalCapabilities":`+sent+`}}`)
		if _, has := kernel.ObjectAt(b.get(vm), "properties")["additionalCapabilities"]; has !=
			want {
			t.Errorf("additionalCapabilities %s are shown: %t", sent, has)
		}
	}
}

// TestScaleSetKeeps: a PUT of a scale set keeps what it leaves out, except tags.
func TestScaleSetKeeps(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	full := scaleSet("Standard_DS1_v2", `{"publisher":"canonical","offer":"server","sku":"20_04"}`, 2)
	b.put(machines, strings.Replace(full, `"virtualMachineProfile":{`, `"virtualMachineProfile":{`+
		`"securityProfile":{"securityType":"TrustedLaunch","uefiSettings":{"vTpmEnabled":true}},`,
		1))
	b.put(machines, `{"location":"westeurope","properties":{"virtualMachineProfile":{`+
		`"securityProfile":{"uefiSettings":{"secureBootEnabled":true}}}}}`)
	profile := kernel.ObjectAt(b.get(machines), "properties", "virtualMachineProfile")
	security := kernel.ObjectAt(profile, "securityProfile")
	uefi := kernel.ObjectAt(security, "uefiSettings")
	if security["securityType"] != "TrustedLaunch" || uefi["vTpmEnabled"] != true ||
		uefi["secureBootEnabled"] != true || kernel.ObjectAt(profile, "osProfile") == nil {
		t.Errorf("%v", profile)
	}
	if n := len(kernel.ListAt(b.get(machines+"/virtualMachines"), "value")); n != 2 {
		t.Errorf("%d machines", n)
	}
}

// TestAutomaticRepairs: a set that repairs its machines says so in its view, and can be told to
// stop.
func TestAutomaticRepairs(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	services := func() string {
		return fmt.Sprint(b.get(machines + "/instanceView")["orchestrationServices"])
	}
	body := scaleSet("Standard_D2_v2", "null", 1)
	b.put(machines, body)
	if got := services(); got != "<nil>" {
		t.Error(got)
	}
	b.put(machines, strings.Replace(body, `"properties":{`,
		`"properties":{"automaticRepairsPolicy":{"enabled":"true"},`, 1))
	b.put(machines, `{"location":"westeurope","properties":{"overprovision":"False"}}`)
	if p := b.properties(machines); p["overprovision"] != false {
		t.Errorf("overprovision %v", p["overprovision"])
	}
	for action, want := range map[string]string{"Resume": "Running", "Suspend": "Suspended"} {
		if status, _, _ := b.call(http.MethodPost, string(machines)+
			"/setOrchestrationServiceState?api-version="+api,
			`{"serviceName":"AutomaticRepairs","action":"`+action+`"}`); status != 200 {
			t.Errorf("%s: %d", action, status)
		}
		b.put(machines, body)
		if got := services(); got != "[map[serviceName:AutomaticRepairs serviceState:"+want+"]]" {
			t.Errorf("after %q: %s", action, got)
		}
		if doc := b.get(machines); doc["routekeeper.repairs"] != nil {
			t.Errorf("%v", doc)
		}
	}
}
