package build

import (
	"os"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/capacity"

	"routekeeper.dev/routekeeper/internal/finding/pastetest"
)

// TestMain runs the tests. Then it pastes the commands that they made with hostile names.
func TestMain(m *testing.M) { os.Exit(pastetest.Main(m.Run)) }

// TestPastedAssociation: the command that associates the table with which a cluster was built.
func TestPastedAssociation(t *testing.T) {
	for _, rename := range pastetest.Names() {
		id := func(kind, name string) arm.ID {
			return arm.ID(pastetest.Rename("/subscriptions/s/resourceGroups/g/providers/"+
				"Microsoft.Network/"+kind+"/"+name, rename))
		}
		c := shop(capacity.Kubenet)
		c.Existing = &Existing{Nodes: id("virtualNetworks", "net") + "/subnets/nodes",
			NodeTable: id("routeTables", "rt")}
		if checkBuiltTable(&c, Network{ClusterBuilt: true}, "") == nil {
			t.Error("the subnet needs no table")
		}
	}
}
