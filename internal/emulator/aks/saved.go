package aks

import (
	"encoding/json"
	"net/netip"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// extra returns the state behind a cluster's document, and restored loads it.
func (s *AKS) extra(r *kernel.Resource) json.RawMessage {
	if cl := s.Clusters[r.ID.Key()]; cl != nil {
		return kernel.Encode(cl)
	}
	return nil
}

func (s *AKS) restored(_ *kernel.Resource, extra json.RawMessage) error {
	if extra == nil {
		return nil
	}
	cl := &cluster{}
	if err := json.Unmarshal(extra, cl); err != nil {
		return err
	}
	s.restoreCluster(cl)
	return nil
}

// savedWith returns the cluster of a scale set, or "".
func (s *AKS) savedWith(id arm.ID) arm.ID {
	if cl := s.nodeGroups[id.Group().Key()]; cl != nil && id.Is(arm.TypeScaleSet) {
		return cl.ID
	}
	return ""
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
