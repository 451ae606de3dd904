package plan

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/config"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// valid checks that the proposals are a config that validation accepts, as init writes it.
func valid(t *testing.T, proposals []Proposal) {
	t.Helper()
	var docs []string
	for _, p := range proposals {
		if p.Skip != "" {
			continue
		}
		doc, err := json.Marshal(p.Config)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, string(doc))
	}
	if len(docs) == 0 {
		return
	}
	text := strings.Join(docs, "\n---\n")
	if _, err := config.Read(config.File{Name: "init.yaml", Data: []byte(text)}); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestProposeIsValid: whatever the network is, validation accepts what is proposed. Clusters share
// pod CIDRs, subnets and tables, and tables lead to nodes of several.
func TestProposeIsValid(t *testing.T) {
	managed := arm.ResourceID(sub, "MC_x", arm.TypeRouteTable, "aks-agentpool-12345678-routetable")
	manager := tables + "/AVNM_Managed_0123456789abcdef0123456789abcdef"
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 0))
		pick := func(ids ...arm.ID) arm.ID { return ids[r.IntN(len(ids))] }
		table := func() arm.ID { return pick("", tableA, tableB, hub, managed, manager) }
		w := &world{t: t, s: Facts{Snapshot: inventory.NewSnapshot(), Memory: Memory{}}}
		for _, id := range []arm.ID{tableA, tableB, hub, managed, manager} {
			var routes []string
			for i := range r.IntN(4) {
				routes = append(routes, fmt.Sprintf("n%d 10.%d.%d.0/24 10.%d.0.%d", i,
					244+r.IntN(2), i, 240+r.IntN(2), 4+r.IntN(3)))
			}
			w.table(id, routes...)
		}
		w.subnet(nodesA, "10.240.0.0/24", table()).subnet(nodesB, "10.241.0.0/24", table()).
			subnet(gatewayIn, "10.240.9.0/24", table()).addGateway(gatewayIn, "agw")
		for _, id := range []arm.ID{clusterA, clusterB} {
			w.cluster(id, fmt.Sprintf("10.%d.0.0/16", 244+r.IntN(2)), pick(nodesA, nodesB))
			c := w.s.Clusters[id.Key()]
			switch r.IntN(4) {
			case 0:
				c.Plugin, c.PluginMode = "azure", "overlay"
			case 1:
				c.Plugin = "azure"
			}
			if r.IntN(2) == 0 {
				w.wrote(id, pick(tableA, tableB, hub))
			}
		}
		if valid(t, Propose(w.s.Snapshot)); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestProposeForeignTable: a cluster's route table is no target of another, whatever leads there.
func TestProposeForeignTable(t *testing.T) {
	overlay := func(nodes arm.ID, cidr string) *world {
		w := shop(t).table(tableA, "n1 10.244.0.0/24 10.240.0.4", "a 10.245.1.0/24 10.241.0.4").
			subnet(nodesB, "10.241.0.0/24", "").cluster(clusterB, cidr, nodes)
		w.s.Clusters[clusterB.Key()].Plugin, w.s.Clusters[clusterB.Key()].PluginMode =
			"azure", "overlay"
		return w.has(nodesB, nat, "")
	}
	for name, w := range map[string]*world{
		"routes to both":  overlay(nodesB, "10.245.0.0/16"),
		"the same subnet": overlay(nodesA, "10.244.0.0/16"),
		"not on a subnet": overlay(nodesB, "10.245.0.0/16").wrote(clusterA, tableA).
			subnet(nodesA, "10.240.0.0/24", ""),
	} {
		p := Propose(w.s.Snapshot)
		valid(t, p)
		if len(targetsOf(p[0])) > 0 || p[0].Config.Spec.Source != "RouteTable" ||
			!strings.Contains(strings.Join(p[0].Notes, "\n"), "shop-rt") {
			t.Errorf("%s: %+v", name, p[0])
		}
	}
	// The gateway shares the table of the other cluster's nodes.
	w := shop(t).subnet(gatewayIn, "10.240.9.0/24", tableB).addGateway(gatewayIn, "agw").
		cluster(clusterB, "10.245.0.0/16", nodesB).subnet(nodesB, "10.241.0.0/24", tableB).
		table(tableB).wrote(clusterA, tableA).wrote(clusterB, tableB)
	valid(t, Propose(w.s.Snapshot))
}

// TestProposeManagerTable: a table of Azure Virtual Network Manager is its own to write.
func TestProposeManagerTable(t *testing.T) {
	manager := tables + "/AVNM_Managed_0123456789abcdef0123456789abcdef"
	w := quiet(t).table(manager, "a 10.244.1.0/24 10.240.0.4").wrote(clusterA, tableA)
	w.subnet(gatewayIn, "10.240.9.0/24", manager).addGateway(gatewayIn, "agw")
	for _, plugin := range []string{"kubenet", "azure"} {
		c := w.s.Clusters[clusterA.Key()]
		if c.Plugin = plugin; plugin == "azure" {
			c.PluginMode = "overlay"
			w.table(tableA)
		}
		if got := targetsOf(Propose(w.s.Snapshot)[0]); len(got) > 0 {
			t.Errorf("%s: targets %v", plugin, got)
		}
	}
}

// TestProposeReleasedTable: a table that AKS made for kubenet is not guarded after it.
func TestProposeReleasedTable(t *testing.T) {
	made := arm.ResourceID(sub, "MC_x", arm.TypeRouteTable, "aks-agentpool-12345678-routetable")
	w := guarded(t)
	w.table(made).subnet(nodesA, "10.240.0.0/24", made).has(nodesA, nat, "")
	p := Propose(w.s.Snapshot)[0]
	if got := p.Config.Spec.Guard.Subnets; len(got) != 1 || got[0].RouteTableID != "" ||
		!strings.Contains(strings.Join(p.Notes, "\n"), made.Short()) {
		t.Errorf("%+v", p)
	}
}
