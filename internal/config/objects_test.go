package config

import (
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// TestObjects: objects are checked one by one and together, and a wrong one affects no other.
func TestObjects(t *testing.T) {
	object := func(file, name, rest string) File {
		return File{Name: file, Data: []byte(doc(name, rest))}
	}
	same := object("b.shop", "shop", "") // the cluster is called as the document
	valid, refused := Objects([]File{
		object("a.shop", "shop", "  routeTableID: "+tables+"own\n"),
		same,
		object("a.wrong", "wrong", "  podCIDRs: [nonsense]\n"),
		object("b.fine", "fine", "  targets: [{routeTableID: "+tables+"copies}]\n"),
		object("b.takes", "takes", "  targets: [{routeTableID: "+tables+"own}]\n"),
	})
	var names []string
	for _, c := range valid {
		names = append(names, c.Metadata.Name)
	}
	if got := strings.Join(names, " "); got != "a.shop b.fine" {
		t.Errorf("valid are %s", got)
	}
	for name, field := range map[string]string{"b.shop": "spec.clusterID",
		"a.wrong": "spec.podCIDRs[0]", "b.takes": "spec.targets[0].routeTableID"} {
		if e := refused[name]; e == nil || e.Field != field || e.Problem == "" {
			t.Errorf("%s: %v, want a mistake in %s", name, e, field)
		}
	}
	const both = "the cluster is already configured by a.shop, expected one object for each cluster"
	if got := refused["b.shop"].Problem; got != both {
		t.Errorf("%s, want %s", got, both)
	}
	if len(refused) != 3 {
		t.Errorf("refused are %v", refused)
	}
}

// TestObjectsWithoutCluster: documents without a cluster are known by their names, of files and of
// objects, and objects of two namespaces can have the same name.
func TestObjectsWithoutCluster(t *testing.T) {
	valid, refused := Objects([]File{{"a.hub", []byte(hub)}, {"b.hub", []byte(hub)}})
	if len(refused) > 0 || len(valid) != 2 {
		t.Fatalf("%+v %v", valid, refused)
	}
	read, err := Read(File{"c.yaml", []byte(hub)})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range append(valid, read...) {
		id := arm.ID(c.Spec.ClusterID)
		if want := []string{"a.hub", "b.hub", "hub"}[i]; id.Name() != want || !c.Clusterless() ||
			!inventory.Clusterless(id) {
			t.Errorf("%s, want %s", id, want)
		}
	}
}
