package aks

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/compute"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/emulator/network"
)

// Kinds of node pools. In all kinds except the usual one, each node is a virtual machine with its
// own network interface, in the node resource group.
const (
	poolScaleSet        = "VirtualMachineScaleSets"
	PoolMachines        = "VirtualMachines"
	PoolAvailabilitySet = "AvailabilitySet"
)

// single reports whether each of a pool's nodes is a virtual machine, outside of any scale set.
func (p *pool) single() bool { return p.Kind == PoolMachines || p.Kind == PoolAvailabilitySet }

// namePrefix returns the beginning of the names of everything that AKS makes for a pool.
func (p *pool) namePrefix() string { return strings.TrimSuffix(p.ScaleSet.Name(), "-vmss") }

// nodeName returns the name of a node, which its machine shares: aks-nodepool1-12345678-vmss00000a,
// aks-nodepool1-12345678-vms0 (kubernetes/autoscaler, azure_vms_pool.go) or, in an availability
// set, aks-nodepool1-12345678-0.
func (p *pool) nodeName(number int) string {
	switch p.Kind {
	case PoolMachines:
		return p.namePrefix() + "-vms" + strconv.Itoa(number)
	case PoolAvailabilitySet:
		return p.namePrefix() + "-" + strconv.Itoa(number)
	}
	suffix := strconv.FormatInt(int64(number), 36)
	return p.ScaleSet.Name() + strings.Repeat("0", max(0, 6-len(suffix))) + suffix
}

func (p *pool) machine(n *Node) arm.ID {
	if !p.single() {
		return p.ScaleSet.Child("virtualMachines", strconv.Itoa(n.Instance))
	}
	return p.nodeGroupID(arm.TypeVM, n.Name)
}

func (p *pool) nodeGroupID(resourceType, name string) arm.ID {
	return arm.ResourceID(p.ScaleSet.Subscription(), p.ScaleSet.ResourceGroup(), resourceType, name)
}

// nic returns the ID of a node's network interface. In an availability set its name is known
// (cloud-provider-azure derives the node's name from it). For a virtual machine pool it is a guess
// [U].
func (p *pool) nic(n *Node) arm.ID {
	switch p.Kind {
	case PoolMachines:
		return p.nodeGroupID(arm.TypeInterface, n.Name+"-nic")
	case PoolAvailabilitySet:
		return p.nodeGroupID(arm.TypeInterface, p.namePrefix()+"-nic-"+strconv.Itoa(n.Instance))
	}
	return p.machine(n).Child("networkInterfaces", p.ScaleSet.Name())
}

func (p *pool) availabilitySet() arm.ID {
	name := strings.TrimPrefix(p.namePrefix(), "aks-"+p.Name+"-")
	return p.nodeGroupID(compute.TypeAvailabilitySet, p.Name+"-availabilitySet-"+name)
}

// storeMachines makes the machines and interfaces of a pool's nodes, and removes those of nodes
// that are gone.
func (s *nodes) storeMachines(cl *cluster, p *pool) *kernel.Failure {
	c := cl.call(http.MethodPut, p.ScaleSet, nil)
	put := func(id arm.ID, properties kernel.Object) *kernel.Failure {
		if r := s.kernel.Store.Get(id); r != nil && !readdressed(r, properties) {
			return nil
		}
		_, f := s.kernel.PutResource(c, id,
			kernel.Object{"location": cl.Location, "properties": properties,
				"tags": kernel.Object{"aks-managed-poolName": p.Name}})
		return f
	}
	if p.Kind == PoolAvailabilitySet {
		if f := put(p.availabilitySet(), kernel.Object{"platformFaultDomainCount": 2}); f != nil {
			return f
		}
	}
	wanted := map[string]bool{}
	for _, n := range p.Nodes {
		machine, nic := p.machine(n), p.nic(n)
		wanted[machine.Key()] = true
		if f := put(nic, s.interfaceOf(p, n)); f != nil {
			return f
		}
		body := kernel.Object{
			"hardwareProfile": kernel.Object{"vmSize": p.VMSize},
			"networkProfile": kernel.Object{
				"networkInterfaces": []any{kernel.Object{"id": string(nic),
					"properties": kernel.Object{"primary": true}}}},
		}
		if p.Kind == PoolAvailabilitySet {
			body["availabilitySet"] = arm.Link(p.availabilitySet())
		}
		if f := put(machine, body); f != nil {
			return f
		}
	}
	s.dropMachines(p, wanted)
	return nil
}

// readdressed reports whether an interface has other addresses than it should have.
func readdressed(r *kernel.Resource, properties kernel.Object) bool {
	addresses := func(p kernel.Object) (out []string) {
		for _, c := range kernel.ListAt(p, "ipConfigurations") {
			out = append(out, kernel.Text(c, "properties", "privateIPAddress"))
		}
		return out
	}
	return r.ID.Is(arm.TypeInterface) &&
		!slices.Equal(addresses(r.Properties()), addresses(properties))
}

// dropMachines removes the machines of a pool that are not wanted, with their interfaces.
func (s *nodes) dropMachines(p *pool, wanted map[string]bool) {
	for _, vm := range s.kernel.Store.List(arm.TypeVM, p.ScaleSet.Group()) {
		if wanted[vm.ID.Key()] || kernel.Text(vm.Body, "tags", "aks-managed-poolName") != p.Name {
			continue
		}
		nics := kernel.ListAt(vm.Body, "properties", "networkProfile", "networkInterfaces")
		_ = s.kernel.RemoveResource(vm) // cannot fail: no resource depends on a machine
		for _, nic := range nics {
			if r := s.kernel.Store.Get(arm.ID(kernel.Text(nic, "id"))); r != nil {
				_ = s.kernel.RemoveResource(r) // only the machine had it
			}
		}
	}
}

// interfaceOf returns the properties of a node's interface, with the addresses it holds already.
func (s *nodes) interfaceOf(p *pool, n *Node) kernel.Object {
	configurations := []any{}
	for i, a := range n.Addrs {
		configurations = append(configurations, kernel.Object{
			"name": p.configuration(n, i).Name(), "properties": kernel.Object{
				"primary": i == 0, "subnet": arm.Link(p.Subnet),
				"privateIPAddressVersion": network.FamilyOf(
					a), "privateIPAllocationMethod": "Dynamic",
				"privateIPAddress": a.String(),
			},
		})
	}
	return kernel.Object{"enableIPForwarding": true, "ipConfigurations": configurations}
}

// settleMachines reads, for a pool of virtual machines, the number of its machines and the first of
// their sizes.
func settleMachines(p kernel.Object) *kernel.Failure {
	kind := kernel.Text(p, "type")
	if kind != "" &&
		!slices.Contains([]string{poolScaleSet, PoolMachines, PoolAvailabilitySet}, kind) {
		return invalid("agentPoolProfile.type", kind)
	}
	if kind != PoolMachines {
		return nil
	}
	total, size := 0, ""
	sizes := kernel.ListAt(p, "virtualMachinesProfile", "scale", "manual")
	for _, m := range sizes {
		total += kernel.NumberOf(m, "count")
		if size == "" {
			size = kernel.Text(m, "size")
		}
	}
	if len(sizes) > 0 && (p["count"] == nil || kernel.NumberOf(p, "count") == 0) {
		p["count"] = total
	}
	if size != "" {
		kernel.SetDefault(p, "vmSize", size)
	}
	delete(p, "virtualMachinesProfile")
	delete(p, "virtualMachineNodesStatus")
	return nil
}

// showMachines shows a pool of virtual machines as AKS does: without count and vmSize. Other fields
// list the sizes, each with a count (az aks show of November 2025).
func showMachines(p kernel.Object) {
	if kernel.Text(p, "type") != PoolMachines {
		return
	}
	sized := []any{kernel.Object{"size": p["vmSize"], "count": p["count"]}}
	p["virtualMachinesProfile"] = kernel.Object{"scale": kernel.Object{"manual": sized}}
	p["virtualMachineNodesStatus"] = kernel.CloneValue(sized)
	p["vmSize"] = ""
	delete(p, "count")
	delete(p, "enableAutoScaling")
}
