package compute

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/emulator/network"
)

// Instance is one machine of a scale set, of a cluster's or of any other.
type Instance struct {
	Set      *kernel.Resource
	Number   int
	Computer string
	Nics     []InstanceNIC
}

// InstanceNIC is a network interface of an instance, with its addresses.
type InstanceNIC struct {
	ID      arm.ID
	Subnet  arm.ID
	Configs []arm.ID
	Addrs   []netip.Addr
	Primary bool
}

func (i Instance) id() arm.ID {
	return i.Set.ID.Child("virtualMachines", strconv.Itoa(i.Number))
}

// settleScaleSet chooses the addresses of a scale set's instances. AKS chooses those of a cluster's
// nodes.
func (s *Compute) settleScaleSet(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	kernel.SetDefault(r.Properties(), "uniqueId", kernel.GuidOf("unique", r.ID))
	settleMachineProfile(r)
	if f := checkImage(r); f != nil {
		return f
	}
	capacity := 0
	if sku := kernel.ObjectAt(r.Body, "sku"); sku["capacity"] != nil {
		if _, err := fmt.Sscan(fmt.Sprint(sku["capacity"]), &capacity); err != nil ||
			capacity < 0 || capacity > 1000 {
			return kernel.Bad("InvalidParameter",
				"The value of parameter sku.capacity is invalid: %v.", sku["capacity"])
		}
	}
	if _, subnet, ours := s.Pools.PoolInstances(r); ours {
		for a, holder := range s.network.Addresses.Of(subnet).By {
			if kernel.PartOf(holder, r.ID) {
				r.Addresses = append(r.Addresses,
					kernel.TakenAddress{Subnet: subnet, Addr: a, Holder: holder})
			}
		}
		return nil
	}
	s.keepMachines(c, r, old)
	var numbers []int
	if old != nil {
		for _, i := range s.instancesOf(old) {
			numbers = append(numbers, i.Number)
		}
	}
	added := max(0, capacity-len(numbers))
	for len(numbers) < capacity {
		numbers = append(numbers, nextNumber(r, numbers))
	}
	if old == nil {
		r.Doing = "Creating"
	}
	chosen := map[string]bool{}
	numbers = numbers[:capacity]
	numbers = append(numbers, s.addSurplus(c, r, old, numbers, added)...)
	for at, number := range numbers {
		vm := r.ID.Child("virtualMachines", strconv.Itoa(number))
		for _, ref := range network.ReferencesIn(r.ID, r.Body) {
			if !ref.Link.Takes() {
				continue
			}
			subnet := s.kernel.Store.Get(ref.Target())
			if f := s.network.Addresses.CheckReserved(ref, subnet); f != nil {
				return f
			}
			ref.Holder = vm.Child("networkInterfaces",
				ref.Holder.Parent().Name()).Child("ipConfigurations", ref.Holder.Name())
			found, f := s.network.Addresses.DynamicAddress(ref, subnet, chosen)
			if f != nil && at >= capacity {
				continue // a surplus machine does not fit
			}
			if f != nil {
				return f
			}
			r.Addresses = append(r.Addresses, found)
		}
	}
	return nil
}

// machinesOf returns all machines of a scale set, by number, including surplus ones.
func (s *Compute) machinesOf(set *kernel.Resource) []Instance {
	if out, _, ours := s.Pools.PoolInstances(set); ours {
		return out
	}
	// The addresses held in subnets show which instances exist.
	held := map[int]map[arm.ID]*InstanceNIC{}
	for _, ref := range network.ReferencesIn(set.ID, set.Body) {
		if !ref.Link.Takes() {
			continue
		}
		for a, holder := range s.network.Addresses.Of(ref.Target()).By {
			if !kernel.PartOf(holder, set.ID) ||
				!strings.EqualFold(holder.Name(), ref.Holder.Name()) ||
				!strings.EqualFold(holder.Parent().Name(), ref.Holder.Parent().Name()) {
				continue
			}
			number, err := strconv.Atoi(holder.Parent().Parent().Name())
			if err != nil {
				continue
			}
			if held[number] == nil {
				held[number] = map[arm.ID]*InstanceNIC{}
			}
			nic := held[number][holder.Parent()]
			if nic == nil {
				nic = &InstanceNIC{ID: holder.Parent(), Subnet: ref.Target(),
					Primary: len(held[number]) == 0}
				held[number][holder.Parent()] = nic
			}
			nic.Configs, nic.Addrs = append(nic.Configs, holder), append(nic.Addrs, a)
		}
	}
	prefix := kernel.Text(set.Body, "properties", "virtualMachineProfile", "osProfile",
		"computerNamePrefix")
	if prefix == "" {
		prefix = set.ID.Name()
	}
	var out []Instance
	for number, nics := range held {
		suffix := strings.ToUpper(strconv.FormatInt(int64(number), 36))
		i := Instance{Set: set, Number: number, Computer: prefix +
			strings.Repeat("0", max(0, 6-len(suffix))) + suffix}
		for _, nic := range nics {
			i.Nics = append(i.Nics, *nic)
		}
		slices.SortFunc(i.Nics, func(a, b InstanceNIC) int {
			return strings.Compare(a.ID.Key(), b.ID.Key())
		})
		out = append(out, i)
	}
	slices.SortFunc(out, func(a, b Instance) int { return a.Number - b.Number })
	return out
}

// inScaleSet answers for paths inside scale sets: instances and their network interfaces.
func (s *Compute) inScaleSet(c *kernel.Call, set *kernel.Resource, parts []string) (kernel.Reply,
	*kernel.Failure, bool) {
	if !slices.Contains([]string{http.MethodGet, http.MethodPost, http.MethodPut,
		http.MethodDelete}, c.Method) {
		return kernel.Reply{}, nil, false
	}
	if c.Method == http.MethodPost {
		return kernel.Handled(s.scaleSetAction(c, set, parts))
	}
	all := s.instancesOf(set)
	if len(parts) > 1 {
		all = slices.DeleteFunc(all, func(i Instance) bool {
			return strconv.Itoa(i.Number) != parts[1]
		})
		if len(all) == 0 {
			return kernel.Reply{}, kernel.Fail(http.StatusNotFound, "NotFound", noEntity), true
		}
	}
	one := len(parts) == 2 && parts[0] == "virtualmachines"
	switch {
	case one && c.Method == http.MethodPut:
		return kernel.Handled(s.writeMachine(c, all[0]))
	case one && c.Method == http.MethodDelete:
		if f := s.deleteInstances(c, set, parts[1:2]); f != nil {
			return kernel.Reply{}, f, true
		}
		s.kernel.Record(c, all[0].id(), "delete", nil)
		return s.kernel.Accepted(c, nil), nil, true
	case c.Method != http.MethodGet:
		return kernel.Reply{}, kernel.NotFound(c), true
	}
	doc := s.kernel.Document(set, c.Version)
	machines := func() (out []kernel.Object) {
		for _, i := range all {
			out = append(out, i.document(doc, c.Version, c.Param("$expand")))
		}
		return out
	}
	nics := func() (out []kernel.Object) {
		pools := s.nodePools(set)
		for _, i := range all {
			for _, nic := range i.Nics {
				doc := nic.document(i)
				if configurations := kernel.ListAt(doc, "properties",
					"ipConfigurations"); pools != nil && len(configurations) > 0 {
					kernel.ObjectAt(configurations[0],
						"properties")["loadBalancerBackendAddressPools"] = pools
				}
				out = append(out, doc)
			}
		}
		return out
	}
	what := parts[len(parts)-1]
	switch {
	case len(parts) == 1 && what == "networkinterfaces":
		all = s.machinesOf(set)
		return kernel.Handled(s.kernel.PageObjects(c, nics()))
	case len(parts) == 3 && parts[0] == "virtualmachines" && what == "networkinterfaces":
		return kernel.Handled(s.kernel.PageObjects(c, nics()))
	case len(parts) == 1 && what == "publicipaddresses":
		return kernel.Handled(s.kernel.PageObjects(c, s.publicAddresses(all)))
	case len(parts) == 1 && what == "virtualmachines":
		return kernel.Handled(s.kernel.PageObjects(c, machines()))
	case len(parts) == 1 && what == "instanceview":
		return kernel.OK(viewOf(set, len(all))), nil, true
	case one:
		return kernel.OK(machines()[0]), nil, true
	case len(parts) == 3 && parts[0] == "virtualmachines" && what == "instanceview":
		return kernel.OK(all[0].view(doc)), nil, true
	case len(parts) == 1 && what == "osupgradehistory": // no upgrade of images is emulated
		return kernel.Handled(s.kernel.PageObjects(c, nil))
	case len(parts) > 3 && parts[0] == "virtualmachines" && parts[2] == "networkinterfaces":
		if nic := kernel.Named(nics(), parts[3]); nic != nil {
			return kernel.Handled(s.interfaceCall(c, nic, parts[4:], s.publicAddresses(all)))
		}
		return kernel.Reply{}, kernel.Fail(http.StatusNotFound, "NotFound",
			"The network interface %s of instance %s of %s was not found.", parts[3], parts[1],
			set.ID.Name()), true
	}
	return kernel.Reply{}, kernel.NotFound(c), true
}

// interfaceCall answers with an instance's interface, or with what is below it: IP configurations,
// and the public IP addresses of each.
func (s *Compute) interfaceCall(c *kernel.Call, nic kernel.Object, below []string,
	public []kernel.Object) (kernel.Reply, *kernel.Failure) {
	at := nic
	for i, word := range below {
		var items []kernel.Object
		switch {
		case i == 0 && word == "ipconfigurations":
			items = kernel.ListAt(nic, "properties", "ipConfigurations")
		case i == 2 && word == "publicipaddresses":
			of := arm.ID(kernel.Text(at, "id"))
			items = slices.DeleteFunc(public, func(address kernel.Object) bool {
				return !kernel.PartOf(arm.ID(kernel.Text(address, "id")), of)
			})
		case i%2 == 0:
			return kernel.Reply{}, kernel.NotFound(c)
		default:
			continue
		}
		if i == len(below)-1 {
			return s.kernel.PageObjects(c, items)
		}
		if at = kernel.Named(items, below[i+1]); at == nil {
			return kernel.Reply{}, kernel.NotFound(c)
		}
	}
	return kernel.OK(at), nil
}

// nodePools returns the backend pools that the machines of a cluster's scale set are in.
func (s *Compute) nodePools(set *kernel.Resource) []any {
	if _, _, ours := s.Pools.PoolInstances(set); !ours {
		return nil
	}
	return s.network.ClusterPools(set.ID.Group())
}

func (n InstanceNIC) document(of Instance) kernel.Object {
	configurations := []any{}
	for i, a := range n.Addrs {
		configurations = append(configurations, kernel.Object{
			"name": n.Configs[i].Name(), "id": string(n.Configs[i]), "etag": of.Set.Tag(),
			"properties": kernel.Object{
				"provisioningState": "Succeeded", "privateIPAddress": a.String(),
				"privateIPAddressVersion":   network.FamilyOf(a),
				"privateIPAllocationMethod": "Dynamic", "primary": i == 0,
				"subnet": arm.Link(n.Subnet),
			},
		})
	}
	properties := kernel.Object{
		"provisioningState": "Succeeded", "primary": n.Primary, "enableIPForwarding": false,
		"enableAcceleratedNetworking": false, "ipConfigurations": configurations,
		"virtualMachine": arm.Link(of.id()),
	}
	n.showInterface(of, properties)
	return kernel.Object{
		"name": n.ID.Name(), "id": string(n.ID), "etag": of.Set.Tag(),
		"location": of.Set.Body["location"], "properties": properties,
	}
}

// InterfaceOf returns an interface and its subnet. The ID is that of the interface, or of an
// instance, which stands for its first interface.
func (s *Compute) InterfaceOf(id arm.ID) (nic, subnet arm.ID, known bool) {
	set := id
	for set != "" && !set.Is(arm.TypeScaleSet) {
		set = set.Parent()
	}
	r := s.kernel.Store.Get(set)
	if r == nil {
		return "", "", false
	}
	for _, i := range s.instancesOf(r) {
		for _, nic := range i.Nics {
			if nic.ID.Equal(id) || i.id().Equal(id) {
				return nic.ID, nic.Subnet, true
			}
		}
	}
	return "", "", false
}
