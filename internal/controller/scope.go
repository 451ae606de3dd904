package controller

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/yamllimits"
)

// Scopes say which Azure resources the objects of a namespace may name: those at or below one of
// the IDs. The controller has its own permissions. Without scopes, anyone who may create a
// ClusterRoutes object could use them.
type Scopes map[string][]arm.ID

// Everything is the scope of all resources.
const Everything = arm.ID("*")

// foreign reports whether an object belongs to another controller: the scopes allow nothing in its
// namespace, and the other controller has written into it first.
func (o Options) foreign(object *ClusterRoutes) bool {
	by := object.Status.Controller
	return len(o.Scopes[object.Namespace]) == 0 && by != "" && by != o.name()
}

// ReadScopes reads an allow-list: YAML with a list of scopes for each namespace. A scope is the ID
// of a subscription, resource group or resource, or "*".
func ReadScopes(text []byte) (Scopes, error) {
	if err := yamllimits.Check(text); err != nil {
		return nil, err
	}
	var lists map[string][]string
	if err := yaml.Unmarshal(text, &lists); err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return nil, fmt.Errorf("expected a list of scopes for each namespace: %s", first)
	}
	if len(lists) == 0 {
		return nil, errors.New("names no namespace: expected a list of scopes for each namespace")
	}
	scopes := Scopes{}
	for _, namespace := range slices.Sorted(maps.Keys(lists)) {
		for _, text := range lists[namespace] {
			id := arm.ID(text)
			if id != Everything {
				var err error
				if id, err = arm.ParseID(text); err != nil {
					return nil, fmt.Errorf("%s: %q is not a scope: %w; expected /subscriptions/…, "+
						"/subscriptions/…/resourceGroups/…, the ID of a resource, or *", namespace,
						text, err)
				}
			}
			scopes[namespace] = append(scopes[namespace], id)
		}
		if len(scopes[namespace]) == 0 {
			return nil, fmt.Errorf("%s: no scope, expected a list", namespace)
		}
	}
	return scopes, nil
}

// allow reports whether objects of a namespace may name a resource.
func (s Scopes) allow(namespace string, id arm.ID) bool {
	return slices.ContainsFunc(s[namespace], func(scope arm.ID) bool {
		return scope == Everything || within(id, scope)
	})
}

// within reports whether a resource is a scope, or below it.
func within(id, scope arm.ID) bool {
	return id.Equal(scope) || strings.HasPrefix(id.Key(), scope.Key()+"/")
}

// check says which ID of an object lies outside its namespace's scopes, or returns "".
//
// The cluster's node resource group counts as the cluster, because only AKS makes it. Its name is
// known for certain only once the cluster was read, so mayWrite checks again.
func (s Scopes) check(namespace string, spec *v1alpha1.Spec) string {
	cluster := arm.ID(spec.ClusterID)
	usual := arm.GroupID(cluster.Subscription(), "MC_"+cluster.ResourceGroup()+"_"+cluster.Name()+
		"_")
	check := func(field, text string) string {
		id := arm.ID(text)
		if text == "" || s.allow(namespace, id) || inventory.Clusterless(id) ||
			field != "clusterID" && strings.HasPrefix(id.Key(), usual.Key()) {
			return ""
		}
		return fmt.Sprintf("spec.%s: %s lies outside the scopes that namespace %s may use", field,
			text, namespace)
	}
	wrong := []string{check("clusterID", spec.ClusterID),
		check("routeTableID", spec.RouteTableID),
		check("egress.routeTableID", spec.Egress.RouteTableID),
		check("egress.firewallID", spec.Egress.FirewallID)}
	for i, g := range spec.Guard.Subnets {
		field := fmt.Sprintf("guard.subnets[%d].", i)
		wrong = append(wrong, check(field+"subnetID", g.SubnetID))
		for _, property := range inventory.Properties {
			wrong = append(wrong,
				check(field+property.Field(), string(plan.GuardedValue(g, property))))
		}
	}
	for i, t := range spec.Targets {
		wrong = append(wrong, check(fmt.Sprintf("targets[%d].routeTableID", i), t.RouteTableID))
	}
	for _, why := range wrong {
		if why != "" {
			return why
		}
	}
	return ""
}

// mayWrite says why a write for an object of a namespace must not be made, or returns "". ids has
// the discovered or configured resources that the write changes, and those read for it.
func (s Scopes) mayWrite(namespace string, cluster *inventory.Cluster, ids ...arm.ID) string {
	for _, id := range ids {
		if id == "" || s.allow(namespace, id) ||
			cluster != nil && s.allow(namespace, cluster.ID) && within(id, cluster.NodeGroup()) {
			continue
		}
		return fmt.Sprintf("%s lies outside the scopes that namespace %s may use", id, namespace)
	}
	return ""
}
