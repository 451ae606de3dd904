package emulator

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// Kinds of node pools. The nodes of all but the usual one are virtual machines of their own, with
// network interfaces of their own, in the node resource group.
const (
	poolScaleSet        = "VirtualMachineScaleSets"
	poolMachines        = "VirtualMachines"
	poolAvailabilitySet = "AvailabilitySet"
)

const typeAvailabilitySet = "Microsoft.Compute/availabilitySets"

// single reports whether a pool's nodes are virtual machines of their own.
func (p *pool) single() bool { return p.kind == poolMachines || p.kind == poolAvailabilitySet }

// base is what the names of all that AKS makes for a pool begin with.
func (p *pool) base() string { return strings.TrimSuffix(p.scaleSet.Name(), "-vmss") }

// nodeName is the name of a node, which its machine shares: aks-nodepool1-12345678-vmss00000a,
// aks-nodepool1-12345678-vms0 (kubernetes/autoscaler, azure_vms_pool.go) or, in an availability
// set, aks-nodepool1-12345678-0.
func (p *pool) nodeName(number int) string {
	switch p.kind {
	case poolMachines:
		return p.base() + "-vms" + strconv.Itoa(number)
	case poolAvailabilitySet:
		return p.base() + "-" + strconv.Itoa(number)
	}
	suffix := strconv.FormatInt(int64(number), 36)
	return p.scaleSet.Name() + strings.Repeat("0", max(0, 6-len(suffix))) + suffix
}

// machine is the ID of a node's machine.
func (p *pool) machine(n *node) arm.ID {
	if !p.single() {
		return p.scaleSet.Child("virtualMachines", strconv.Itoa(n.instance))
	}
	return p.beside(typeVM, n.name)
}

// beside is an ID of the pool's node resource group.
func (p *pool) beside(resourceType, name string) arm.ID {
	return arm.ResourceID(p.scaleSet.Subscription(), p.scaleSet.ResourceGroup(), resourceType, name)
}

// nic is the ID of a node's network interface. In an availability set its name is known
// (cloud-provider-azure takes the node's from it); that of a virtual machine pool's is a guess [U].
func (p *pool) nic(n *node) arm.ID {
	switch p.kind {
	case poolMachines:
		return p.beside(typeNIC, n.name+"-nic")
	case poolAvailabilitySet:
		return p.beside(typeNIC, p.base()+"-nic-"+strconv.Itoa(n.instance))
	}
	return p.machine(n).Child("networkInterfaces", p.scaleSet.Name())
}

// set is the availability set of a pool.
func (p *pool) set() arm.ID {
	name := strings.TrimPrefix(p.base(), "aks-"+p.name+"-")
	return p.beside(typeAvailabilitySet, p.name+"-availabilitySet-"+name)
}

// storeMachines makes the machines and interfaces of a pool's nodes, and removes those of nodes
// that are gone.
func (s *aks) storeMachines(cl *cluster, p *pool) *failure {
	c := cl.call(http.MethodPut, p.scaleSet, nil)
	put := func(id arm.ID, properties object) *failure {
		if r := s.kernel.store.get(id); r != nil && !readdressed(r, properties) {
			return nil
		}
		_, f := s.kernel.putResource(c, id,
			object{"location": cl.location, "properties": properties,
				"tags": object{"aks-managed-poolName": p.name}})
		return f
	}
	if p.kind == poolAvailabilitySet {
		if f := put(p.set(), object{"platformFaultDomainCount": 2}); f != nil {
			return f
		}
	}
	wanted := map[string]bool{}
	for _, n := range p.nodes {
		machine, nic := p.machine(n), p.nic(n)
		wanted[machine.Key()] = true
		if f := put(nic, s.interfaceOf(cl, p, n)); f != nil {
			return f
		}
		body := object{
			"hardwareProfile": object{"vmSize": p.vmSize},
			"networkProfile": object{"networkInterfaces": []any{object{"id": string(nic),
				"properties": object{"primary": true}}}},
		}
		if p.kind == poolAvailabilitySet {
			body["availabilitySet"] = object{"id": string(p.set())}
		}
		if f := put(machine, body); f != nil {
			return f
		}
	}
	s.dropMachines(p, wanted)
	return nil
}

// refreshMachines gives the interfaces of single machines the addresses that their nodes have now.
func (s *aks) refreshMachines(cl *cluster, p *pool) *failure {
	if !p.single() {
		return nil
	}
	return s.storeMachines(cl, p)
}

// readdressed reports whether an interface has other addresses than it is to have.
func readdressed(r *resource, properties object) bool {
	addresses := func(p object) (out []string) {
		for _, c := range listAt(p, "ipConfigurations") {
			out = append(out, text(objectAt(c, "properties"), "privateIPAddress"))
		}
		return out
	}
	return r.id.Is(typeNIC) &&
		!slices.Equal(addresses(objectAt(r.body, "properties")), addresses(properties))
}

// dropMachines removes the machines of a pool that are not wanted, with their interfaces.
func (s *aks) dropMachines(p *pool, wanted map[string]bool) {
	for _, vm := range s.kernel.store.list(typeVM, p.scaleSet.Group()) {
		if wanted[vm.id.Key()] ||
			text(objectAt(vm.body, "tags"), "aks-managed-poolName") != p.name {
			continue
		}
		nics := listAt(objectAt(vm.body, "properties", "networkProfile"), "networkInterfaces")
		_ = s.kernel.removeResource(vm) // nothing needs a machine
		for _, nic := range nics {
			if r := s.kernel.store.get(arm.ID(text(nic, "id"))); r != nil {
				_ = s.kernel.removeResource(r) // only the machine had it
			}
		}
	}
}

// interfaceOf are the properties of a node's interface, with the addresses it holds already.
func (s *aks) interfaceOf(cl *cluster, p *pool, n *node) object {
	configurations := []any{}
	for i, a := range n.addrs {
		family := "IPv4"
		if a.Is6() {
			family = "IPv6"
		}
		configurations = append(configurations, object{
			"name": p.configuration(n, i).Name(), "properties": object{
				"primary": i == 0, "subnet": object{"id": string(p.subnet)},
				"privateIPAddressVersion": family, "privateIPAllocationMethod": "Dynamic",
				"privateIPAddress": a.String(),
			},
		})
	}
	return object{"enableIPForwarding": true, "ipConfigurations": configurations}
}

// settleMachines reads how many machines of which size a pool of virtual machines is to have.
func settleMachines(p object) *failure {
	kind := text(p, "type")
	if kind != "" && !slices.Contains([]string{poolScaleSet, poolMachines, poolAvailabilitySet},
		kind) {
		return invalid("agentPoolProfile.type", kind)
	}
	if kind != poolMachines {
		return nil
	}
	total, size := 0, ""
	sizes := listAt(objectAt(p, "virtualMachinesProfile", "scale"), "manual")
	for _, m := range sizes {
		total += numberOf(m, "count")
		if size == "" {
			size = text(m, "size")
		}
	}
	if len(sizes) > 0 && (p["count"] == nil || numberOf(p, "count") == 0) {
		p["count"] = total
	}
	if size != "" {
		setDefault(p, "vmSize", size)
	}
	delete(p, "virtualMachinesProfile")
	delete(p, "virtualMachineNodesStatus")
	return nil
}

// showMachines shows a pool of virtual machines as AKS does: without count and size (az aks show
// of November 2025), which are said by size.
func showMachines(p object) {
	if text(p, "type") != poolMachines {
		return
	}
	sized := []any{object{"size": p["vmSize"], "count": p["count"]}}
	p["virtualMachinesProfile"] = object{"scale": object{"manual": sized}}
	p["virtualMachineNodesStatus"] = cloneValue(sized)
	p["vmSize"] = ""
	delete(p, "count")
	delete(p, "enableAutoScaling")
}
