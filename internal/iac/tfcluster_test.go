package iac

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/finding"
)

// TestClusterReplaced: a real plan that replaces a cluster, and every variation of it, is an error,
// whatever is known about subnets.
func TestClusterReplaced(t *testing.T) {
	for _, m := range mutations {
		for _, known := range []Known{{}, {Carriers: []Carrier{Named("aks", "it carries pods")}}} {
			r, err := readPlain("plan.json",
				bytes.NewReader(dump(t, m.change(t, load(t, "s15-pod-cidr-replaces-cluster")))))
			if err != nil {
				t.Fatal(err)
			}
			found := r.Findings(known)
			if len(found) != 1 {
				t.Fatalf("%s: %+v", m.name, found)
			}
			f := found[0]
			if f.Code != finding.IaCDestroys || f.Severity != finding.Error ||
				!strings.HasSuffix(f.Resource, "/managedClusters/aksD") ||
				f.Message != "cluster aksD is destroyed and created again: a change of "+
					"network_profile[0].pod_cidr forces it" ||
				!strings.Contains(f.Advice, "keep network_profile[0].pod_cidr as it is") {
				t.Errorf("%s: %+v", m.name, f)
			}
		}
	}
}

// TestClusterDestroyed: every way to lose a cluster is an error, and a plan that keeps it is not.
func TestClusterDestroyed(t *testing.T) {
	const (
		id    = "/subscriptions/s/resourceGroups/g/providers/Microsoft.ContainerService/managedClusters/shop"
		paths = `,"replace_paths":[["dns_prefix"],["network_profile",0,"pod_cidr"]]`
	)
	values := fmt.Sprintf(`{"id":%q,"name":"shop","network_profile":[{"network_plugin":"azure"}]}`,
		id)
	azapi := func(actions string, more ...string) string {
		body := fmt.Sprintf(
			`{"id":%q,"name":"shop","type":"Microsoft.ContainerService/managedClusters@2024-05-01","body":{"properties":{}}}`, id)
		after := body
		if actions == "delete" {
			after = "null"
		}
		return changes(tfAzapi, "shop", actions, body, after, more...)
	}
	because := func(change, reason string) string {
		return strings.Replace(change, `"change"`, `"action_reason":"`+reason+`","change"`, 1)
	}
	for _, c := range []struct{ name, change, want string }{
		{"delete and create", changes(tfCluster, "shop", "delete,create", values, values, paths),
			"cluster shop is destroyed and created again: a change of dns_prefix and " +
				"network_profile[0].pod_cidr forces it"},
		{"create before destroy", changes(tfCluster, "shop", "create,delete", values, values,
			paths), "cluster shop is destroyed and created again: a change of dns_prefix and " +
			"network_profile[0].pod_cidr forces it"},
		{"asked for", because(changes(tfCluster, "shop", "delete,create", values, values),
			"replace_by_request"), "cluster shop is destroyed and created again: -replace asks " +
			"for it"},
		{"tainted, too", because(changes(tfCluster, "shop", "delete,create", values, values,
			`,"replace_paths":[["dns_prefix"]]`), "replace_because_tainted"), "cluster shop is " +
			"destroyed and created again: it is tainted, and a change of dns_prefix forces it"},
		{"without a word why", changes(tfCluster, "shop", "delete,create", values, values),
			"cluster shop is destroyed and created again"},
		{"delete", changes(tfCluster, "shop", "delete", values, "null"),
			"cluster shop is destroyed"},
		{"block removed", because(changes(tfCluster, "shop", "delete", values, "null"),
			"delete_because_no_resource_config"), "cluster shop is destroyed: its resource block " +
			"is gone"},
		{"a leftover", strings.Replace(changes(tfCluster, "shop", "delete", values, "null"),
			`"change"`, `"deposed":"abc","change"`, 1),
			"cluster shop is destroyed: it was left over from an earlier replacement"},
		{"by azapi", azapi("delete"), "cluster shop is destroyed"},
		{"replaced by azapi", azapi("delete,create", `,"replace_paths":[["location"]]`),
			"cluster shop is destroyed and created again: a change of location forces it"},
		{"unnamed", changes(tfCluster, "shop", "delete", "{}", "null"),
			"cluster azurerm_kubernetes_cluster.shop is destroyed"},
		{"forgotten", changes(tfCluster, "shop", "forget", values, "null"), ""},
		{"forgotten and created again",
			changes(tfCluster, "shop", "forget,create", values, values, paths), ""},
		{"updated", changes(tfCluster, "shop", "update", values, values), ""},
		{"updated by azapi", azapi("update"), ""},
		{"only its azapi_update_resource",
			strings.Replace(azapi("delete"), `"`+tfAzapi+`"`, `"`+tfAzapiUpdate+`"`, 1), ""},
		{"a pool of it", changes(tfPool, "two", "delete", `{}`, "null"), ""},
	} {
		text := `{"format_version":"1.2","resource_changes":[` + c.change + `]}`
		hostilePlan([]byte(text))
		r, err := readPlain("plan", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		found, repaired := r.Findings(Known{}), 0
		if _, repairs := r.Repairs(Known{}, finding.Info); len(repairs) == 1 && repairs[0] != nil {
			repaired++
		}
		switch {
		case c.want == "" && len(found) > 0, repaired > 0:
			t.Errorf("%s: %+v", c.name, found)
		case c.want != "" && (len(found) != 1 || found[0].Code != finding.IaCDestroys ||
			found[0].Severity != finding.Error || found[0].Message != c.want):
			t.Errorf("%s: %+v, want %s", c.name, found, c.want)
		}
	}
}
