package build

import (
	"cmp"
	"crypto/sha1"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/capacity"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// How it works. A cluster is a list of steps in the order that Azure requires. Each step is one
// resource with its expected body. A body can contain what Azure gave an earlier step, such as the
// object ID of an identity. The present resource is compared with the body (compare.go). Only
// fields of the body count, so fields that Azure or others add stay. So the plan can be made again
// at any time, even after a kill, and keeps what is correct.

// Step is one resource to build.
type Step struct {
	ID arm.ID
	// Why says what it is for; it can be "".
	Why string
	// Found is set for an existing resource of others that the cluster uses: it is never made, and
	// changed only with --adopt. Guest is set for a subnet that is made in an existing network,
	// with --adopt.
	Found, Guest bool
	// Associates is the route table that an existing subnet lacks, "" for none.
	Associates arm.ID
	// Tagged reports whether the resource has the owner's tag. A resource without tags is owned
	// with its parent, or by a name that only this program gives.
	Tagged bool
	// Fixed are fields that Azure cannot change later; a path includes everything below it.
	Fixed []string
	// WaitsForRoles is set if Azure refuses the step until the new identity or its roles take
	// effect.
	WaitsForRoles bool
	// Later is the expected body once the resource exists, if others write the rest of it. Nil: the
	// whole body.
	Later func() map[string]any
	body  func(Made) object
	// tune completes the expected body from the present one; nil if that is not needed.
	tune func(have gjson.Result, want object)
}

type object = map[string]any

// Made are the resources built or found so far, by ID.Key().
type Made map[string]arm.Document

// text returns a field of a resource, "" if it is not known yet.
func (m Made) text(id arm.ID, path string) string {
	return gjson.GetBytes(m[id.Key()].Raw, path).String()
}

// Body returns the expected body. Values from earlier steps are "" until those are made.
func (s Step) Body(made Made) map[string]any { return s.body(made) }

// OwnerTag is the tag of everything that is built for a cluster, and Owner its value.
const OwnerTag = "routekeeper-cluster"

// Owner returns the value of the owner's tag: the cluster's resource group and name.
func (c Cluster) Owner() string { return strings.ToLower(c.Group + "/" + c.Name) }

func (c Cluster) tags() object { return object{OwnerTag: c.Owner()} }

// at returns the body of a tagged resource in the cluster's location.
func (c Cluster) at(body object) object {
	out := object{"location": c.Location, "tags": c.tags()}
	maps.Copy(out, body)
	return out
}

// Steps returns the steps of a complete cluster, in order.
func (c Cluster) Steps() []Step {
	tags := object{"tags": anchor(c)}
	identity := c.step(c.IdentityID(), "of the cluster", tags, "location")
	steps := []Step{
		c.step(c.GroupID(), "for everything that is built", nil, "location"),
		identity, // first, because its tags say which network is used
	}
	steps = append(steps, networkSteps(c)...)
	steps = append(steps, roleSteps(c)...)
	steps = append(steps, gatewaySteps(c)...)
	return append(append(steps, clusterStep(c)), addonSteps(c)...)
}

// What names the resource in words, such as "route table".
func (s Step) What() string { return Word(s.ID) }

// step returns a tagged resource with a fixed body.
func (c Cluster) step(id arm.ID, why string, body object, fixed ...string) Step {
	return Step{ID: id, Why: why, Tagged: true, Fixed: fixed, body: func(Made) object {
		return c.at(body)
	}}
}

func networkSteps(c Cluster) []Step {
	var steps []Step
	if c.HasTable() {
		why := "for pod routes"
		if c.Blueprint != capacity.Kubenet {
			why = "for egress through the firewall"
		}
		steps = append(steps, tableStep(c, c.NodeTableID(), c.ownNodeTable(), why))
	}
	// A separate resource: a write of the table would replace it, and lose the pod routes.
	if c.Egress.IsValid() && c.NodeTableID().Equal(c.ownNodeTable()) {
		egress := object{
			"addressPrefix": "0.0.0.0/0", "nextHopType": "VirtualAppliance",
			"nextHopIpAddress": c.Egress.String(),
		}
		steps = append(steps, Step{
			ID: c.NodeTableID().Child("routes", "egress"), Why: "0.0.0.0/0 to " + c.Egress.String(),
			body: func(Made) object { return object{"properties": egress} },
		})
	}
	if c.HasGatewayTable() {
		why := "for the gateway's copies of the pod routes"
		if !c.GatewayTableID().Equal(c.NodeTableID()) {
			steps = append(steps, tableStep(c, c.GatewayTableID(), c.ownGatewayTable(), why))
		}
	}
	return append(append(steps, vnetStep(c)), subnetSteps(c)...)
}

// tableStep returns a route table: a new one or an existing one.
func tableStep(c Cluster, id, own arm.ID, why string) Step {
	if !id.Equal(own) {
		return found(id, "existing, "+why, nil)
	}
	return c.step(id, why, nil, "location")
}

// found returns a resource of others, with its expected body.
func found(id arm.ID, why string, body object) Step {
	return Step{ID: id, Why: why, Found: true, body: func(Made) object { return body }}
}

func vnetStep(c Cluster) Step {
	if c.Existing != nil {
		return found(c.VNetID(), "existing, "+inventory.List(c.Space), nil)
	}
	var space []any
	for _, p := range c.Space {
		space = append(space, p.String())
	}
	network := object{"properties": object{"addressSpace": object{"addressPrefixes": space}}}
	return c.step(c.VNetID(), inventory.List(c.Space), network, "location")
}

// subnetSteps returns the subnets with their tables. For an existing subnet only the table counts.
func subnetSteps(c Cluster) (steps []Step) {
	e := c.existing()
	subnet := func(there, id arm.ID, prefix fmt.Stringer, why string, table, has arm.ID) {
		properties := object{}
		if table != "" {
			properties["routeTable"] = arm.Link(table)
		}
		if there != "" {
			body := object{"properties": properties}
			step := found(id, prefix.String()+" existing, "+why, body)
			if has == "" {
				step.Associates = table
			}
			steps = append(steps, step)
			return
		}
		properties["addressPrefix"] = prefix.String()
		steps = append(steps, Step{
			ID: id, Why: prefix.String() + " " + why,
			Fixed: []string{"properties.addressPrefix"}, Guest: c.Existing != nil,
			body: func(Made) object { return object{"properties": properties} },
		})
	}
	table := arm.ID("")
	if c.HasTable() {
		table = c.NodeTableID()
	}
	subnet(e.Nodes, c.NodeSubnetID(), c.Nodes, "for nodes", table, e.NodeTable)
	if c.HasPodSubnet() {
		table := arm.ID("")
		if c.Egress.IsValid() { // packets of pods leave with the pods' addresses
			table = cmp.Or(e.PodTable, c.NodeTableID())
		}
		subnet(e.Pods, c.PodSubnetID(), c.Pods, "for pods", table, e.PodTable)
	}
	if c.ApplicationGateway != nil {
		table := arm.ID("")
		if c.HasGatewayTable() {
			table = c.GatewayTableID()
		}
		subnet(e.Gateway, c.GatewaySubnetID(), c.Gateway, "for the Application Gateway", table,
			e.GatewayTable)
	}
	return steps
}

// ClusterActions returns what a cluster's identity needs on existing subnets and route tables (AKS:
// use kubenet with your own subnet; configure Azure CNI). Network Contributor includes them, and
// much more.
func (c Cluster) ClusterActions() []string {
	actions := []string{
		"Microsoft.Network/virtualNetworks/subnets/read",
		"Microsoft.Network/virtualNetworks/subnets/join/action",
	}
	if c.HasTable() {
		actions = append(actions, "Microsoft.Network/routeTables/read",
			"Microsoft.Network/routeTables/write", "Microsoft.Network/routeTables/routes/read",
			"Microsoft.Network/routeTables/routes/write",
			"Microsoft.Network/routeTables/routes/delete")
	}
	return actions
}

// RoleID returns the definition of the cluster's role.
func (c Cluster) RoleID() arm.ID {
	return arm.ID("/subscriptions/" + c.Subscription + "/providers/" + arm.TypeRoleDefinition +
		"/" + c.GUID("role"))
}

// guidNamespace is that of the template function guid (bicep-functions-string).
var guidNamespace = uuid.MustParse("11fb06fb-712d-4ddd-98c7-e71bbd588830")

// GUID returns a name that is unique to this cluster and purpose. It equals guid(clusterId,
// purpose, scope) in a template, so that generated code and create give the same names.
func (c Cluster) GUID(purpose string, scope ...arm.ID) string {
	parts := []string{c.ClusterID().Key(), purpose}
	for _, id := range scope {
		parts = append(parts, id.Key())
	}
	return uuid.NewHash(sha1.New(), guidNamespace, []byte(strings.Join(parts, "-")), 5).String()
}

// AssignmentID returns the assignment of the cluster's role at a scope.
func (c Cluster) AssignmentID(scope arm.ID) arm.ID {
	return scope + arm.ID("/providers/"+arm.TypeRoleAssignment+"/"+c.GUID("assignment", scope))
}

// assignedRoleID returns the role that the cluster's identity gets.
func (c Cluster) assignedRoleID(scope arm.ID) arm.ID {
	if c.BuiltInRoles {
		return builtIn(networkContributor, scope)
	}
	return c.RoleID()
}

// roleScopes returns where the cluster's identity needs its role.
func roleScopes(c Cluster) []arm.ID {
	scopes := []arm.ID{c.NodeSubnetID()}
	if c.HasPodSubnet() {
		scopes = append(scopes, c.PodSubnetID())
	}
	if c.HasTable() {
		scopes = append(scopes, c.NodeTableID())
	}
	return scopes
}

// groups returns the resource groups in which the cluster's role is assigned.
func groups(c Cluster) []any {
	groups := []any{string(c.GroupID())}
	scopes := roleScopes(c)
	if c.ApplicationGateway != nil {
		scopes = append(scopes, c.GatewaySubnetID())
	}
	for _, scope := range scopes {
		known := func(g any) bool { return strings.EqualFold(g.(string), string(scope.Group())) }
		if !slices.ContainsFunc(groups, known) {
			groups = append(groups, string(scope.Group()))
		}
	}
	return groups
}

func roleSteps(c Cluster) []Step {
	actions := make([]any, 0, 8)
	for _, a := range c.ClusterActions() {
		actions = append(actions, a)
	}
	var steps []Step
	if !c.BuiltInRoles {
		steps = append(steps, Step{
			ID: c.RoleID(), Why: "what the cluster needs on its network, and no more",
			body: func(Made) object {
				return object{"properties": object{
					"roleName": c.Name + " cluster network (" + c.GUID("role")[:8] +
						")", "type": "CustomRole",
					"description": "What the AKS cluster " + c.Owner() +
						" needs on its network. Made by routekeeper.",
					"permissions":      []any{object{"actions": actions}},
					"assignableScopes": groups(c),
				}}
			},
		})
	}
	for _, scope := range roleScopes(c) {
		id, why := c.AssignmentID(scope), "on "+scope.Name()
		steps = append(steps,
			assignment(id, c.assignedRoleID(scope), why, c.IdentityID(), "properties.principalId"))
	}
	return steps
}

// assignment gives a role to an identity. The identity's object ID is a field of an earlier step's
// resource.
func assignment(id, role arm.ID, why string, of arm.ID, field string) Step {
	return Step{
		ID: id, Why: why, WaitsForRoles: true, Fixed: []string{"properties"},
		body: func(made Made) object {
			return object{"properties": object{
				"roleDefinitionId": string(role),
				"principalId":      made.text(of, field),
				// with this, Azure does not look up an identity that it may not know yet
				"principalType": "ServicePrincipal",
			}}
		},
	}
}

func clusterStep(c Cluster) Step {
	return Step{
		ID: c.ClusterID(), Why: string(c.Blueprint), Tagged: true,
		WaitsForRoles: true,
		Fixed: []string{
			"location", "properties.dnsPrefix", "properties.networkProfile",
			"properties.apiServerAccessProfile",
			"properties.agentPoolProfiles.vmSize", "properties.agentPoolProfiles.vnetSubnetID",
			"properties.agentPoolProfiles.podSubnetID",
			"properties.agentPoolProfiles.podIPAllocationMode",
			"properties.agentPoolProfiles.maxPods",
			"properties.agentPoolProfiles.availabilityZones",
			"properties.agentPoolProfiles.mode",
		},
		Later: func() object { return clusterBody(c, false) },
		tune:  func(have gjson.Result, want object) { tunePools(c, have, want) },
		body:  func(Made) object { return clusterBody(c, true) },
	}
}

// clusterBody returns the cluster's body; with first, it contains the number of nodes of all pools.
func clusterBody(c Cluster, first bool) object {
	properties := object{
		"dnsPrefix": c.Name, "networkProfile": networkProfile(c), "agentPoolProfiles": pools(c,
			first),
		"oidcIssuerProfile": object{"enabled": true}, // for workload identity
		"securityProfile":   object{"workloadIdentity": object{"enabled": true}},
	}
	if c.Version != "" {
		properties["kubernetesVersion"] = c.Version
	}
	if c.Private {
		properties["apiServerAccessProfile"] = object{"enablePrivateCluster": true}
	}
	if c.ApplicationGateway != nil {
		properties["addonProfiles"] = object{"ingressApplicationGateway": object{
			"enabled": true, "config": object{"applicationGatewayId": string(c.GatewayID())},
		}}
	}
	return c.at(object{
		"identity": object{
			"type": "UserAssigned", "userAssignedIdentities": object{
				string(c.IdentityID()): object{}},
		},
		"properties": properties,
	})
}

// tunePools sets the number of nodes for pools that Azure would refuse without it: a new autoscaled
// pool, and a pool whose nodes are outside of its limits.
func tunePools(c Cluster, have gjson.Result, want object) {
	pools := want["properties"].(object)["agentPoolProfiles"].([]any)
	for i, p := range c.Pools {
		if p.Most == 0 {
			continue
		}
		count := p.Count
		for _, there := range have.Get("properties.agentPoolProfiles").Array() {
			if strings.EqualFold(there.Get("name").String(), p.Name) {
				count = min(max(int(there.Get("count").Int()), p.Least), p.Most)
			}
		}
		pools[i].(object)["count"] = count
	}
}

func networkProfile(c Cluster) object {
	profile := object{
		"networkPlugin": "azure", "outboundType": "loadBalancer",
		"serviceCidr": c.Services.String(), "dnsServiceIP": dnsOf(c.Services),
	}
	if c.Egress.IsValid() {
		profile["outboundType"] = "userDefinedRouting"
	}
	switch c.Blueprint {
	case capacity.Kubenet:
		profile["networkPlugin"] = "kubenet"
	case capacity.Overlay:
		profile["networkPluginMode"] = "overlay"
	case capacity.NodeSubnet, capacity.PodSubnet, capacity.PodSubnetStatic: // the pools say which
	}
	if c.hasPodCIDR() {
		profile["podCidr"] = c.PodCIDR.String()
	}
	if c.NetworkPolicy != "" {
		profile["networkPolicy"] = c.NetworkPolicy
	}
	if c.NetworkPolicy == "cilium" {
		profile["networkDataplane"] = "cilium"
	}
	return profile
}

func pools(c Cluster, first bool) []any {
	var pools []any
	for i, p := range c.Pools {
		body := object{
			"name": p.Name, "mode": "User", "vmSize": p.VMSize, "maxPods": p.MaxPods,
			"vnetSubnetID": string(c.NodeSubnetID()),
		}
		if i == 0 {
			body["mode"] = "System"
		}
		if p.Most > 0 {
			body["enableAutoScaling"], body["minCount"], body["maxCount"] = true, p.Least, p.Most
		}
		if first || p.Most == 0 { // later the autoscaler sets it
			body["count"] = p.Count
		}
		if c.HasPodSubnet() {
			body["podSubnetID"] = string(c.PodSubnetID())
		}
		if c.Blueprint == capacity.PodSubnetStatic {
			body["podIPAllocationMode"] = "StaticBlock"
		}
		if len(p.Zones) > 0 {
			var zones []any
			for _, z := range p.Zones {
				zones = append(zones, z)
			}
			body["availabilityZones"] = zones
		}
		pools = append(pools, body)
	}
	return pools
}
