package compute

import (
	"cmp"
	"net/http"
	"strconv"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// noEntity is Microsoft.Compute's message for a missing child.
const noEntity = "The entity was not found in this Azure location."

// machinesField is the field of a scale set's document with the changes of single machines, by
// number: their power state, whether they have an older model than the set, and what a PUT of the
// machine changed. Clients do not see it.
const machinesField = "routekeeper.machines"

// repairsField is the field of a scale set's document with the state of its automatic repairs after
// an action; "" is Running. Clients do not see it.
const repairsField = "routekeeper.repairs"

// viewOf returns the instance view of a scale set.
func viewOf(set *kernel.Resource, machines int) kernel.Object {
	view := kernel.Object{"virtualMachine": kernel.Object{"statusesSummary": []kernel.Object{
		{"code": "ProvisioningState/succeeded", "count": machines}}},
		"statuses": []any{kernel.Object{"code": "ProvisioningState/succeeded", "level": "Info",
			"displayStatus": "Provisioning succeeded", "time": computeTime(set.Changed)}}}
	if kernel.ObjectAt(set.Body, "properties", "automaticRepairsPolicy")["enabled"] == true {
		view["orchestrationServices"] = []any{kernel.Object{"serviceName": "AutomaticRepairs",
			"serviceState": cmp.Or(kernel.Text(set.Body, repairsField), "Running")}}
	}
	return view
}

// powerStates are the states of a machine after an action, with the word that Azure shows.
var powerStates = map[string]string{"start": "running", "restart": "running",
	"poweroff": "stopped", "deallocate": "deallocated"}

// machine returns what was done to a machine; nil if nothing was.
func (i Instance) machine() kernel.Object {
	return kernel.ObjectAt(i.Set.Body, machinesField, strconv.Itoa(i.Number))
}

// power returns the machine's power state.
func (i Instance) power() string {
	if state := kernel.Text(i.machine(), "power"); state != "" {
		return state
	}
	return "running"
}

// noteChange notes what is done to some machines of a set. After a model's change, machines of a
// set that is upgraded by hand keep the old model until they are upgraded or reimaged (documented).
func (s *Compute) noteChange(set *kernel.Resource, numbers []string, field string, value any) {
	all := kernel.ObjectAt(set.Body, machinesField)
	if all == nil {
		all = kernel.Object{}
		set.Body[machinesField] = all
	}
	for _, i := range s.instancesOf(set) {
		if name := strconv.Itoa(i.Number); numbered(numbers, i.Number) {
			if kernel.ObjectAt(all, name) == nil {
				all[name] = kernel.Object{}
			}
			kernel.ObjectAt(all, name)[field] = value
		}
	}
}

// keepMachines takes over the changes of single machines when their set is written, and notes that
// they have an old model if the new one differs.
func (s *Compute) keepMachines(c *kernel.Call, r, old *kernel.Resource) {
	if old == nil {
		return
	}
	if have := kernel.ObjectAt(old.Body, machinesField); have != nil {
		r.Body[machinesField] = kernel.Clone(have)
	}
	r.Body[repairsField] = kernel.Text(old.Body, repairsField)
	model := func(of *kernel.Resource) string {
		return string(kernel.Encode(kernel.ObjectAt(s.kernel.Document(of, c.Version),
			"properties", "virtualMachineProfile")))
	}
	mode := kernel.Text(r.Body, "properties", "upgradePolicy", "mode")
	if mode != "Automatic" && mode != "Rolling" && model(r) != model(old) {
		s.noteChange(r, []string{"*"}, "old", true)
	}
}

// act does an action to machines of a set: those of the path, of the body, or all.
func (s *Compute) act(c *kernel.Call, set *kernel.Resource, action string, parts []string) {
	numbers := []string{"*"}
	if len(parts) == 3 {
		numbers = parts[1:2]
	} else if sent, f := kernel.DecodeObject(c.Body); f == nil && sent["instanceIds"] != nil {
		numbers = kernel.List(sent, "instanceIds")
	}
	s.kernel.Remember(set.ID)
	switch state := powerStates[action]; {
	case state != "":
		s.noteChange(set, numbers, "power", state)
	case action == "setorchestrationservicestate":
		sent, f := kernel.DecodeObject(c.Body)
		if f != nil {
			return
		}
		set.Body[repairsField] = map[string]string{"Suspend": "Suspended",
			"Resume": "Running"}[kernel.Text(sent, "action")]
	case action == "manualupgrade" || action == "reimage" || action == "reimageall":
		s.noteChange(set, numbers, "old", false)
	default:
		return
	}
	s.kernel.Store.Changed(set)
}

// writeMachine changes what a client may change of one machine: its tags, its data disks and
// whether it is protected.
func (s *Compute) writeMachine(c *kernel.Call, i Instance) (kernel.Reply, *kernel.Failure) {
	sent, f := kernel.DecodeObject(c.Body)
	if f != nil {
		return kernel.Reply{}, f
	}
	if f := s.kernel.Busy(i.Set.ID); f != nil {
		return kernel.Reply{}, f
	}
	s.kernel.Remember(i.Set.ID)
	p, numbers := kernel.ObjectAt(sent, "properties"), []string{strconv.Itoa(i.Number)}
	s.noteChange(i.Set, numbers, "tags", sent["tags"])
	s.noteChange(i.Set, numbers, "protectionPolicy", p["protectionPolicy"])
	if p["userData"] != nil { // a client does not read it without asking
		s.noteChange(i.Set, numbers, "userData", p["userData"])
	}
	disks := kernel.ListAt(p, "storageProfile", "dataDisks")
	for _, disk := range disks {
		s.attach(disk)
	}
	s.noteChange(i.Set, numbers, "dataDisks", kernel.Items(disks))
	s.kernel.Occupy(c, i.Set, "Updating")
	s.kernel.Record(c, i.id(), "write", nil)
	doc := i.document(s.kernel.Document(i.Set, c.Version), c.Version, "")
	kernel.ObjectAt(doc, "properties")["provisioningState"] = kernel.State(i.Set)
	return s.kernel.Started(c, i.Set, kernel.Reply{Status: http.StatusOK,
		Header: map[string]string{}, Body: kernel.Encode(doc)}), nil
}

// showMachine adds to an instance's document what was done to it. It adds the user data only if
// asked for.
func (i Instance) showMachine(doc kernel.Object, userData bool) {
	m, p := i.machine(), kernel.ObjectAt(doc, "properties")
	if userData {
		p["userData"] = m["userData"]
		kernel.SetDefault(p, "userData",
			kernel.ObjectAt(i.Set.Body, "properties", "virtualMachineProfile")["userData"])
	}
	p["latestModelApplied"] = m["old"] != true
	if m["tags"] != nil {
		doc["tags"] = m["tags"]
	}
	if m["protectionPolicy"] != nil {
		p["protectionPolicy"] = m["protectionPolicy"]
	}
	if storage := kernel.ObjectAt(p, "storageProfile"); storage != nil && m["dataDisks"] != nil {
		storage["dataDisks"] = kernel.CloneValue(m["dataDisks"])
	}
}

// attach gives a machine's disk the name, type and size of the disk that it is.
func (s *Compute) attach(disk kernel.Object) {
	kernel.SetDefault(disk, "toBeDetached", false)
	managed := kernel.ObjectAt(disk, "managedDisk")
	id := arm.ID(kernel.Text(managed, "id"))
	if id == "" {
		return
	}
	kernel.SetDefault(disk, "name", id.Name())
	if of := s.kernel.Store.Get(id); of != nil {
		kernel.SetDefault(managed, "storageAccountType", kernel.ObjectAt(of.Body, "sku")["name"])
		kernel.SetDefault(disk, "diskSizeGB", of.Properties()["diskSizeGB"])
	}
}
