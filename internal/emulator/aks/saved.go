package aks

import (
	"encoding/json"
	"net/netip"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// section stores the state behind the clusters' documents.
func (s *AKS) section() kernel.Section {
	return kernel.Section{
		Name: "clusters",
		Behind: func(key string) (string, func() any) {
			if cl := s.clusterBehind(key); cl != nil {
				return cl.ID.Key(), func() any { return cl }
			}
			if arm.ID(key).Is(arm.TypeCluster) {
				return key, nil
			}
			return "", nil
		},
		Restore: func(read func(into any) error) error {
			cl := &cluster{}
			if err := read(cl); err != nil {
				return err
			}
			s.restoreCluster(cl)
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
	var was *cluster
	if cl := s.Clusters[id.Key()]; cl != nil {
		was = &cluster{}
		if err := json.Unmarshal(kernel.Encode(cl), was); err != nil {
			panic(err) // it was just written
		}
	}
	return func() {
		if now := s.Clusters[id.Key()]; now != nil {
			now.provider.stop()
			for _, p := range now.Pools {
				delete(s.scaleSets, p.ScaleSet.Key())
			}
			delete(s.nodeGroups, now.NodeGroup.Key())
			delete(s.Clusters, id.Key())
		}
		if was != nil {
			s.restoreCluster(was)
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

// restoreCluster adds a cluster as it was saved.
func (s *AKS) restoreCluster(cl *cluster) {
	cl.provider = &cloudProvider{AKS: s, cluster: cl}
	cl.takenPodCIDRs = map[netip.Prefix]bool{}
	for _, p := range cl.Pools {
		if p.made = true; !p.single() {
			s.scaleSets[p.ScaleSet.Key()] = poolOf{cl, p}
		}
		for _, n := range p.Nodes {
			for _, taken := range n.PodCIDRs {
				cl.takenPodCIDRs[taken] = true
			}
		}
	}
	s.Clusters[cl.ID.Key()] = cl
	s.nodeGroups[cl.NodeGroup.Key()] = cl
	// a user-assigned identity is in its own document, if that still exists
	if arm.ID(cl.Who.Resource).Equal(cl.ID) {
		s.entra.Identity.Add(cl.Who)
	}
}

// clusterAt returns the cluster in a path, or "".
func clusterAt(path []string) arm.ID {
	if len(path) < 8 {
		return ""
	}
	id := arm.ID("/" + strings.Join(path[:8], "/"))
	if !id.Is(arm.TypeCluster) {
		return ""
	}
	return id
}
