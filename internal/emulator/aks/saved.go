package aks

import (
	"net/netip"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// savedCluster is the stored form of the state behind a cluster's document.
type savedCluster struct {
	ID          arm.ID           `json:"id"`
	Digits      string           `json:"digits"`
	Location    string           `json:"location"`
	NodeGroup   arm.ID           `json:"nodeGroup"`
	Mode        networkMode      `json:"mode"`
	Leaving     bool             `json:"leaving,omitempty"`
	PodCIDRs    []netip.Prefix   `json:"podCIDRs,omitempty"`
	Table       arm.ID           `json:"table,omitempty"`
	Who         kernel.Principal `json:"who"`
	Pools       []savedPool      `json:"pools"`
	NextPodCIDR []int            `json:"nextPodCIDR,omitempty"`
	Paused      bool             `json:"paused,omitempty"`
	Bugs        RouteBugs        `json:"bugs,omitzero"`
	Services    []Service        `json:"services,omitempty"`
	Addresses   []arm.ID         `json:"addresses,omitempty"`
}

type savedPool struct {
	Name      string      `json:"name"`
	Subnet    arm.ID      `json:"subnet"`
	ScaleSet  arm.ID      `json:"scaleSet"`
	Kind      string      `json:"kind,omitempty"`
	PodSubnet arm.ID      `json:"podSubnet,omitempty"`
	Blocks    bool        `json:"blocks,omitempty"`
	MaxPods   int         `json:"maxPods"`
	VMSize    string      `json:"vmSize"`
	Doing     string      `json:"doing,omitempty"`
	Until     time.Time   `json:"until,omitzero"`
	Next      int         `json:"next"`
	Nodes     []savedNode `json:"nodes"`
}

type savedNode struct {
	Name     string         `json:"name"`
	Instance int            `json:"instance"`
	Addrs    []netip.Addr   `json:"addrs"`
	Pods     []netip.Addr   `json:"pods,omitempty"`
	PodCIDRs []netip.Prefix `json:"podCIDRs,omitempty"`
	Created  time.Time      `json:"created,omitzero"`
	Overlay  bool           `json:"overlay,omitempty"`
	// RoutesSeen is the time of the cloud provider's last report about the node's routes,
	// RoutesThere its content.
	RoutesSeen  time.Time `json:"routesSeen,omitzero"`
	RoutesThere bool      `json:"routesThere,omitempty"`
}

func saveCluster(cl *cluster) savedCluster {
	s := savedCluster{
		ID: cl.id, Digits: cl.digits, Location: cl.location, NodeGroup: cl.nodeGroup, Mode: cl.mode,
		Leaving: cl.leaving, PodCIDRs: cl.podCIDRs,
		Table: cl.Table, Who: cl.Who, NextPodCIDR: cl.nextPodCIDR, Paused: cl.provider.paused,
		Bugs: cl.provider.bugs, Services: cl.services, Addresses: cl.addresses,
	}
	for _, p := range cl.Pools {
		pool := savedPool{Name: p.name, Subnet: p.subnet, ScaleSet: p.ScaleSet, Kind: p.kind,
			Next:      p.next,
			PodSubnet: p.podSubnet, Blocks: p.blocks, MaxPods: p.maxPods, VMSize: p.vmSize,
			Doing: p.doing, Until: p.until}
		for _, n := range p.Nodes {
			pool.Nodes = append(pool.Nodes, savedNode{Name: n.Name, Instance: n.instance,
				Addrs: n.Addrs, Pods: n.Pods, PodCIDRs: n.PodCIDRs, Created: n.created,
				Overlay:    n.overlay,
				RoutesSeen: n.routes.since, RoutesThere: n.routes.there})
		}
		s.Pools = append(s.Pools, pool)
	}
	return s
}

// section stores the state behind the clusters' documents.
func (s *AKS) section() kernel.Section {
	return kernel.Section{
		Name: "clusters",
		Behind: func(key string) (string, func() any) {
			if cl := s.clusterBehind(key); cl != nil {
				return cl.id.Key(), func() any { return saveCluster(cl) }
			}
			if arm.ID(key).Is(arm.TypeCluster) {
				return key, nil
			}
			return "", nil
		},
		Restore: func(read func(into any) error) error {
			var saved savedCluster
			if err := read(&saved); err != nil {
				return err
			}
			s.restoreCluster(saved)
			return nil
		},
	}
}

// watch records the called cluster, so that the call can be undone.
func (s *AKS) watch(c *kernel.Call) (takeBack func()) {
	id := clusterAt(c.Path)
	if id == "" {
		return nil
	}
	var was *savedCluster
	if cl := s.Clusters[id.Key()]; cl != nil {
		saved := saveCluster(cl)
		was = &saved
	}
	return func() {
		if now := s.Clusters[id.Key()]; now != nil {
			now.provider.stop()
			for _, p := range now.Pools {
				delete(s.scaleSets, p.ScaleSet.Key())
			}
			delete(s.nodeGroups, now.nodeGroup.Key())
			delete(s.Clusters, id.Key())
		}
		if was != nil {
			s.restoreCluster(*was)
			s.nodes.nodesChanged(s.Clusters[id.Key()])
		}
	}
}

// clusterBehind returns the cluster whose document or scale set has the key.
func (s *AKS) clusterBehind(key string) *cluster {
	id := arm.ID(key)
	switch {
	case id.Is(arm.TypeCluster):
		return s.Clusters[key]
	case id.Is(arm.TypeScaleSet):
		return s.nodeGroups[id.Group().Key()]
	}
	return nil
}

func (s *AKS) restoreCluster(saved savedCluster) {
	cl := &cluster{
		id: saved.ID, digits: saved.Digits, location: saved.Location, nodeGroup: saved.NodeGroup,
		mode:    saved.Mode,
		leaving: saved.Leaving, podCIDRs: saved.PodCIDRs,
		Table: saved.Table, Who: saved.Who, nextPodCIDR: saved.NextPodCIDR,
		takenPodCIDRs: map[netip.Prefix]bool{}, services: saved.Services,
		addresses: saved.Addresses,
	}
	cl.provider = &cloudProvider{aks: s, cluster: cl, paused: saved.Paused, bugs: saved.Bugs}
	for _, p := range saved.Pools {
		restored := &pool{name: p.Name, subnet: p.Subnet, ScaleSet: p.ScaleSet, kind: p.Kind,
			next:      p.Next,
			podSubnet: p.PodSubnet, blocks: p.Blocks, maxPods: p.MaxPods, vmSize: p.VMSize,
			doing: p.Doing, until: p.Until}
		if restored.made = true; !restored.single() {
			s.scaleSets[p.ScaleSet.Key()] = poolOf{cl, restored}
		}
		for _, n := range p.Nodes {
			restored.Nodes = append(restored.Nodes, &Node{Name: n.Name, instance: n.Instance,
				Addrs: n.Addrs, Pods: n.Pods, PodCIDRs: n.PodCIDRs, created: n.Created,
				overlay: n.Overlay,
				routes:  routesSeen{n.RoutesSeen, n.RoutesThere}})
			for _, taken := range n.PodCIDRs {
				cl.takenPodCIDRs[taken] = true
			}
		}
		cl.Pools = append(cl.Pools, restored)
	}
	s.Clusters[cl.id.Key()] = cl
	s.nodeGroups[cl.nodeGroup.Key()] = cl
	// a user-assigned identity is in its own document, if that still exists
	if arm.ID(cl.Who.Resource).Equal(cl.id) {
		s.entra.Identity.Add(cl.Who)
	}
}

// clusterAt returns the cluster in a path, or "".
func clusterAt(path []string) arm.ID {
	if len(path) < 8 {
		return ""
	}
	id := arm.ID("")
	for _, segment := range path[:8] {
		id += arm.ID("/" + segment)
	}
	if !id.Is(arm.TypeCluster) {
		return ""
	}
	return id
}
