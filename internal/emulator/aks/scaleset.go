package aks

import (
	"net/http"
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/compute"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// PoolInstances returns the instances of a pool's scale set, and the subnet that they are in.
func (s *nodes) PoolInstances(set *kernel.Resource) (out []compute.Instance, subnet arm.ID,
	ours bool) {
	p := s.scaleSets[set.ID.Key()].pool
	if p == nil {
		return nil, "", false
	}
	for _, n := range p.Nodes {
		nic := compute.InstanceNIC{ID: p.nic(n), Subnet: p.Subnet, Addrs: n.Addrs, Primary: true}
		for i := range n.Addrs {
			nic.Configs = append(nic.Configs, p.configuration(n, i))
		}
		out = append(out, compute.Instance{Set: set, Number: n.Instance, Computer: n.Name,
			Nics: []compute.InstanceNIC{nic}})
	}
	return out, p.Subnet, true
}

// RemoveInstances deletes the nodes of some instances of a pool's scale set.
func (s *nodes) RemoveInstances(set *kernel.Resource, gone func(number int) bool) *kernel.Failure {
	of := s.scaleSets[set.ID.Key()]
	for _, n := range slices.Clone(of.pool.Nodes) {
		if gone(n.Instance) {
			s.removeNode(of.cluster, of.pool, n)
		}
	}
	s.nodesChanged(of.cluster)
	return s.storeScaleSet(of.cluster, of.pool)
}

// storeScaleSet writes the pool's scale set, or its machines.
func (s *nodes) storeScaleSet(cl *cluster, p *pool) *kernel.Failure {
	p.made = true
	if p.single() {
		return s.storeMachines(cl, p)
	}
	c := cl.call(http.MethodPut, p.ScaleSet, nil)
	nic := kernel.Object{"primary": true,
		"enableIPForwarding": true, "ipConfigurations": []any{kernel.Object{"name": "ipconfig1",
			"properties": kernel.Object{"primary": true, "subnet": arm.Link(p.Subnet)}}}}
	if group := s.ownSecurityGroup(cl, p); group != "" {
		nic["networkSecurityGroup"] = arm.Link(group)
	}
	_, f := s.kernel.PutResource(c, p.ScaleSet, kernel.Object{
		"location": cl.Location,
		"sku":      kernel.Object{"name": p.VMSize, "tier": "Standard", "capacity": len(p.Nodes)},
		"tags":     kernel.Object{"aks-managed-poolName": p.Name},
		"properties": kernel.Object{"orchestrationMode": "Uniform",
			"virtualMachineProfile": kernel.Object{
				"networkProfile": kernel.Object{
					"networkInterfaceConfigurations": []any{
						kernel.Object{"name": p.ScaleSet.Name(), "properties": nic}},
				}}},
	})
	return f
}

// ownSecurityGroup returns the security group of the nodes' interfaces: the one that AKS makes, in
// a network that the cluster was given. In AKS's own network the subnet has it (recorded).
func (s *nodes) ownSecurityGroup(cl *cluster, p *pool) arm.ID {
	if group := cl.securityGroup(); !p.Subnet.Equal(cl.OwnSubnet()) &&
		s.kernel.Store.Get(group) != nil {
		return group
	}
	return ""
}
