package emulator

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/arm"
)

// instance is one machine of a scale set, of a cluster's or of any other.
type instance struct {
	set      *resource
	number   int
	computer string
	nics     []instanceNIC
}

// instanceNIC is a network interface of an instance, with the addresses it has.
type instanceNIC struct {
	id      arm.ID
	subnet  arm.ID
	configs []arm.ID
	addrs   []netip.Addr
	primary bool
}

func (i instance) id() arm.ID {
	return i.set.id.Child("virtualMachines", strconv.Itoa(i.number))
}

// storeScaleSet writes the pool's scale set, or its machines.
func (s *aks) storeScaleSet(cl *cluster, p *pool) *failure {
	p.made = true
	if p.single() {
		return s.storeMachines(cl, p)
	}
	c := cl.call(http.MethodPut, p.scaleSet, nil)
	_, f := s.kernel.putResource(c, p.scaleSet, object{
		"location": cl.location,
		"sku":      object{"name": p.vmSize, "tier": "Standard", "capacity": len(p.nodes)},
		"tags":     object{"aks-managed-poolName": p.name},
		"properties": object{"orchestrationMode": "Uniform", "virtualMachineProfile": object{
			"networkProfile": object{
				"networkInterfaceConfigurations": []any{
					object{"name": p.scaleSet.Name(), "properties": object{
						"primary": true, "enableIPForwarding": true,
						"ipConfigurations": []any{
							object{"name": "ipconfig1", "properties": object{"primary": true,
								"subnet": object{"id": string(p.subnet)}}}},
					}}},
			}}},
	})
	return f
}

func (s *compute) findScaleSet(id arm.ID) (*cluster, *pool) {
	of := s.aks.scaleSets[id.Key()]
	return of.cluster, of.pool
}

// settleScaleSet chooses the addresses of a scale set's instances. The ones of a cluster's nodes
// stay as AKS has made them.
func (s *compute) settleScaleSet(c *call, r, old *resource) *failure {
	setDefault(objectAt(r.body, "properties"), "uniqueId",
		uuid.NewSHA1(uuid.Nil, []byte(r.id.Key())).String())
	settleMachineProfile(r, old)
	capacity := 0
	if sku := objectAt(r.body, "sku"); sku["capacity"] != nil {
		if _, err := fmt.Sscan(fmt.Sprint(sku["capacity"]), &capacity); err != nil ||
			capacity < 0 || capacity > 1000 {
			return fail(http.StatusBadRequest, "InvalidParameter",
				"The value of parameter sku.capacity is invalid: %v.", sku["capacity"])
		}
	}
	if _, p := s.findScaleSet(r.id); p != nil {
		for a, holder := range s.kernel.store.addressesOf(p.subnet).by {
			if partOf(holder, r.id) {
				r.seats = append(r.seats, seat{p.subnet, a, holder})
			}
		}
		return nil
	}
	var numbers []int
	if old != nil {
		for _, i := range s.instancesOf(old) {
			numbers = append(numbers, i.number)
		}
	}
	added := max(0, capacity-len(numbers))
	for len(numbers) < capacity {
		numbers = append(numbers, nextNumber(r, numbers))
	}
	if old == nil {
		r.doing = "Creating"
	}
	chosen := map[string]bool{}
	numbers = numbers[:capacity]
	numbers = append(numbers, s.addSurplus(c, r, old, numbers, added)...)
	for at, number := range numbers {
		vm := r.id.Child("virtualMachines", strconv.Itoa(number))
		for _, ref := range referencesIn(r.id, r.body) {
			if !ref.link.takes() {
				continue
			}
			subnet := s.kernel.store.get(ref.target())
			if f := s.network.checkSeat(ref, subnet); f != nil {
				return f
			}
			ref.holder = vm.Child("networkInterfaces",
				ref.holder.Parent().Name()).Child("ipConfigurations", ref.holder.Name())
			found, f := s.network.dynamicSeat(ref, subnet, chosen)
			if f != nil && at >= capacity {
				continue // one too many does not fit
			}
			if f != nil {
				return f
			}
			r.seats = append(r.seats, found)
		}
	}
	return nil
}

// machinesOf are all machines of a scale set, by number, with the ones that it has too many.
func (s *compute) machinesOf(set *resource) []instance {
	if _, p := s.findScaleSet(set.id); p != nil {
		var out []instance
		for _, n := range p.nodes {
			nic := instanceNIC{id: p.nic(n), subnet: p.subnet, addrs: n.addrs, primary: true}
			for i := range n.addrs {
				nic.configs = append(nic.configs, nic.id.Child("ipConfigurations", "ipconfig"+
					strconv.Itoa(i+1)))
			}
			out = append(out, instance{set, n.instance, n.name, []instanceNIC{nic}})
		}
		return out
	}
	// What the instances hold in the subnets says how many there are.
	held := map[int]map[arm.ID]*instanceNIC{}
	for _, ref := range referencesIn(set.id, set.body) {
		if !ref.link.takes() {
			continue
		}
		for a, holder := range s.kernel.store.addressesOf(ref.target()).by {
			if !partOf(holder, set.id) || !strings.EqualFold(holder.Name(), ref.holder.Name()) ||
				!strings.EqualFold(holder.Parent().Name(), ref.holder.Parent().Name()) {
				continue
			}
			number, err := strconv.Atoi(holder.Parent().Parent().Name())
			if err != nil {
				continue
			}
			if held[number] == nil {
				held[number] = map[arm.ID]*instanceNIC{}
			}
			nic := held[number][holder.Parent()]
			if nic == nil {
				nic = &instanceNIC{id: holder.Parent(), subnet: ref.target(),
					primary: len(held[number]) == 0}
				held[number][holder.Parent()] = nic
			}
			nic.configs, nic.addrs = append(nic.configs, holder), append(nic.addrs, a)
		}
	}
	prefix := text(objectAt(set.body, "properties", "virtualMachineProfile", "osProfile"),
		"computerNamePrefix")
	if prefix == "" {
		prefix = set.id.Name()
	}
	var out []instance
	for number, nics := range held {
		suffix := strings.ToUpper(strconv.FormatInt(int64(number), 36))
		i := instance{set: set, number: number, computer: prefix +
			strings.Repeat("0", max(0, 6-len(suffix))) + suffix}
		for _, nic := range nics {
			i.nics = append(i.nics, *nic)
		}
		slices.SortFunc(i.nics, func(a, b instanceNIC) int {
			return strings.Compare(a.id.Key(), b.id.Key())
		})
		out = append(out, i)
	}
	slices.SortFunc(out, func(a, b instance) int { return a.number - b.number })
	return out
}

// scaleSetCall answers for what is inside scale sets: instances and their network interfaces.
func (s *compute) scaleSetCall(c *call) (reply, *failure, bool) {
	if len(c.path) < 9 || !strings.EqualFold(c.path[6], "virtualMachineScaleSets") ||
		!strings.EqualFold(c.path[5], "Microsoft.Compute") ||
		c.method != http.MethodGet && c.method != http.MethodPost {
		return reply{}, nil, false
	}
	// resources of their own
	if next := strings.ToLower(c.path[8]); next == "providers" ||
		next == "extensions" && len(c.path) > 9 {
		return reply{}, nil, false
	}
	id := arm.ID("/" + strings.Join(c.path[:8], "/"))
	set := s.kernel.store.get(id)
	if set == nil {
		return reply{}, s.kernel.missing(id), true
	}
	parts := strings.Split(strings.ToLower(strings.Join(c.path[8:], "/")), "/")
	if c.method == http.MethodPost {
		answer, f := s.scaleSetAction(c, set, parts)
		return answer, f, true
	}
	all := s.instancesOf(set)
	if len(parts) > 1 {
		all = slices.DeleteFunc(all, func(i instance) bool {
			return strconv.Itoa(i.number) != parts[1]
		})
		if len(all) == 0 {
			return reply{}, fail(http.StatusNotFound, "NotFound",
				"The entity was not found in this Azure location."), true
		}
	}
	expand := strings.EqualFold(c.param("$expand"), "instanceView")
	doc := s.kernel.document(set, c.version)
	machines := func() (out []object) {
		for _, i := range all {
			out = append(out, i.document(doc, c.version, expand))
		}
		return out
	}
	nics := func() (out []object) {
		for _, i := range all {
			for _, nic := range i.nics {
				out = append(out, nic.document(i))
			}
		}
		return out
	}
	what := parts[len(parts)-1]
	switch {
	case len(parts) == 1 && what == "networkinterfaces":
		all = s.machinesOf(set)
		answer, f := s.kernel.pageObjects(c, nics())
		return answer, f, true
	case len(parts) == 3 &&
		parts[0] == "virtualmachines" && what == "networkinterfaces":
		answer, f := s.kernel.pageObjects(c, nics())
		return answer, f, true
	case len(parts) == 1 && what == "virtualmachines":
		answer, f := s.kernel.pageObjects(c, machines())
		return answer, f, true
	case len(parts) == 1 && what == "instanceview":
		return ok(object{"virtualMachine": object{
			"statusesSummary": []object{
				{"code": "ProvisioningState/succeeded", "count": len(all)}}},
			"statuses": statuses()[:1]}), nil, true
	case len(parts) == 2 && parts[0] == "virtualmachines":
		return ok(machines()[0]), nil, true
	case len(parts) == 3 && parts[0] == "virtualmachines" && what == "instanceview":
		return ok(all[0].view(doc)), nil, true
	case len(parts) == 4 && parts[0] == "virtualmachines" && parts[2] == "networkinterfaces":
		for _, nic := range nics() {
			if strings.EqualFold(text(nic, "name"), what) {
				return ok(nic), nil, true
			}
		}
		return reply{}, fail(http.StatusNotFound, "NotFound",
			"The network interface %s of instance %s of %s was not found.", what, parts[1],
			id.Name()), true
	}
	return reply{}, notFound(c), true
}

func statuses() []any {
	return []any{
		object{"code": "ProvisioningState/succeeded", "level": "Info",
			"displayStatus": "Provisioning succeeded"},
		object{"code": "PowerState/running", "level": "Info", "displayStatus": "VM running"},
	}
}

func (n instanceNIC) document(of instance) object {
	configurations := []any{}
	for i, a := range n.addrs {
		family := "IPv4"
		if a.Is6() {
			family = "IPv6"
		}
		configurations = append(configurations, object{
			"name": n.configs[i].Name(), "id": string(n.configs[i]), "etag": of.set.tag(),
			"properties": object{
				"provisioningState": "Succeeded", "privateIPAddress": a.String(),
				"privateIPAddressVersion":   family,
				"privateIPAllocationMethod": "Dynamic", "primary": i == 0, "subnet": object{
					"id": string(n.subnet)},
			},
		})
	}
	properties := object{
		"provisioningState": "Succeeded", "primary": n.primary, "enableIPForwarding": false,
		"enableAcceleratedNetworking": false, "ipConfigurations": configurations,
		"virtualMachine": object{"id": string(of.id())},
	}
	n.showInterface(of, properties)
	return object{
		"name": n.id.Name(), "id": string(n.id), "etag": of.set.tag(),
		"location": of.set.body["location"], "properties": properties,
	}
}

// instanceNICAt finds an interface of an instance by its ID, or the first one of an instance by the
// instance's ID.
func (s *compute) instanceNICAt(id arm.ID) *instanceNIC {
	set := id
	for set != "" && !set.Is(arm.TypeScaleSet) {
		set = set.Parent()
	}
	r := s.kernel.store.get(set)
	if r == nil {
		return nil
	}
	for _, i := range s.instancesOf(r) {
		for _, nic := range i.nics {
			if nic.id.Equal(id) || i.id().Equal(id) {
				return &nic
			}
		}
	}
	return nil
}
