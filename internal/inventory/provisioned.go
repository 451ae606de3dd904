package inventory

import (
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
)

// Provisioned returns the subnets of machines that node auto-provisioning made and no pool names,
// sorted. Only an AKSNodeClass names them (vnetSubnetID; node-auto-provisioning-networking), so the
// interfaces in the node resource group show them.
func (s *Snapshot) Provisioned(c *Cluster, interfaces []*Interface) []arm.ID {
	if !c.AutoProvisioned {
		return nil
	}
	named := slices.Concat(s.NodeSubnetIDs(c), c.PodSubnets())
	var found []arm.ID
	for _, nic := range interfaces {
		if nic.Machine == "" { // of a private endpoint
			continue
		}
		for _, config := range nic.Configs {
			if config.Subnet != "" && !slices.ContainsFunc(named, config.Subnet.Equal) {
				found = append(found, config.Subnet)
			}
		}
	}
	return SortIDs(found)
}
