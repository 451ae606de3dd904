package emulator

import (
	"net/http"
	"slices"
	"strconv"

	"routekeeper.dev/routekeeper/internal/arm"
)

// poolInstances are the instances of a pool's scale set, and the subnet that they are in.
func (s *aks) poolInstances(set *resource) (out []instance, subnet arm.ID, ours bool) {
	p := s.scaleSets[set.id.Key()].pool
	if p == nil {
		return nil, "", false
	}
	for _, n := range p.nodes {
		nic := instanceNIC{id: p.nic(n), subnet: p.subnet, addrs: n.addrs, primary: true}
		for i := range n.addrs {
			nic.configs = append(nic.configs, nic.id.Child("ipConfigurations", "ipconfig"+
				strconv.Itoa(i+1)))
		}
		out = append(out, instance{set, n.instance, n.name, []instanceNIC{nic}})
	}
	return out, p.subnet, true
}

// removeInstances takes the nodes on instances of a pool's scale set away.
func (s *aks) removeInstances(set *resource, gone func(number int) bool) *failure {
	of := s.scaleSets[set.id.Key()]
	for _, n := range slices.Clone(of.pool.nodes) {
		if gone(n.instance) {
			s.removeNode(of.cluster, of.pool, n)
		}
	}
	s.nodesChanged(of.cluster)
	return s.storeScaleSet(of.cluster, of.pool)
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
