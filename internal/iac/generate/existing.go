package generate

import (
	"fmt"
	"maps"
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/build"
)

// How existing networks work. The code refers to existing resources by ID, and never declares them.
// Modules write everything in the network's resource group, and are deployed there: new subnets,
// role assignments, and associations. A module that associates a table reads the subnet during the
// deployment, and writes all of it back with the table. So the subnet keeps its links, and even a
// table that was associated in the meantime.

// placed returns what the code declares for a node: the node itself, a module in the network's
// resource group, or nil for an existing resource that does not change.
func (s *steps) placed(step build.Step, n *node) *node {
	switch {
	case step.Found:
		s.nodes = append(s.nodes, s.existing(n.symbol, step.ID))
		if step.Associates == "" {
			return nil
		}
		return s.association(n.symbol, step)
	case step.Guest:
		return s.guest(n, step.ID)
	}
	return s.inItsGroup(n)
}

// existing returns a resource that the code only refers to.
func (s *steps) existing(symbol string, id arm.ID) *node {
	n := &node{symbol: symbol, kind: id.Type(), version: versions[id.Type()], existing: true,
		id: id, name: id.Name(), group: s.group(id), comment: "Existing."}
	if id.Is(arm.TypeSubnet) {
		n.parent, n.group, n.comment = s.deployment.node("network"), "", ""
	}
	return n
}

// group returns the resource group of an ID, "" for the cluster's own.
func (s *steps) group(id arm.ID) arm.ID {
	if id.Group() == s.marked.GroupID() {
		return ""
	}
	return id.Group()
}

// within returns an existing subnet or table as a module refers to it, with its network.
func within(id arm.ID, name string) []*node {
	n := &node{symbol: "table", kind: id.Type(), version: versions[id.Type()], name: name,
		existing: true}
	if !id.Is(arm.TypeSubnet) {
		return []*node{n}
	}
	n.symbol = "subnet"
	n.parent = &node{symbol: "network", kind: arm.TypeVNet, version: versions[arm.TypeVNet],
		name: id.Parent().Name(), existing: true}
	return []*node{n.parent, n}
}

// module returns a deployment to an existing resource group.
func (s *steps) module(symbol string, group arm.ID, d *deployment, args ...member) *node {
	d.scope = "resourceGroup"
	return &node{symbol: symbol, kind: typeDeployment, version: versions[typeDeployment],
		group: group, module: d, args: args}
}

// association associates a table with an existing subnet.
func (s *steps) association(symbol string, step build.Step) *node {
	subnet := s.deployment.node(symbol)
	written := &node{
		symbol: "subnet", kind: arm.TypeSubnet, version: subnet.version,
		name: subnet.parent.name + "/" + subnet.name,
		body: []member{{"properties", mark("withtable", "properties", "tableId")}},
		comment: "The subnet as it is, with the table. A table that it has already stays: the " +
			"last value counts.",
	}
	m := s.module(symbol+"Table", s.group(step.ID), &deployment{params: []param{
		{name: "properties", kind: "object", about: "The subnet's properties at present."},
		{name: "tableId", about: "The table to associate."},
	}, nodes: []*node{written}},
		member{"properties", mark("properties", symbol)},
		member{"tableId", mark("id", s.symbols[step.Associates])})
	m.comment = fmt.Sprintf("Changes the existing subnet %s: associates the route table with it, "+
		"and keeps everything else. Let nothing else write the subnet meanwhile.",
		step.ID.Short())
	subnet.madeBy = m
	return m
}

// guest makes a subnet in an existing network.
func (s *steps) guest(n *node, id arm.ID) *node {
	purpose := map[string]string{"podSubnet": "pods", "gatewaySubnet": "gateway"}[n.symbol]
	there := s.existing(n.symbol, id)
	there.name = markName + "-" + purpose + "-" + mark("guid8", "subnet "+purpose)
	s.nodes = append(s.nodes, there)
	written := &node{symbol: "subnet", kind: n.kind, version: n.version, once: true,
		name: id.Parent().Name() + "/" + mark("param", "subnetName"), comment: n.comment}
	params := []param{{name: "subnetName", about: "The subnet's name."}}
	args := []member{{"subnetName", there.name}}
	properties := maps.Clone(n.properties())
	if table, has := properties["routeTable"].(object); has {
		params = append(params, param{name: "tableId", about: "Its route table."})
		args = append(args, member{"tableId", table["id"]})
		properties["routeTable"] = object{"id": mark("param", "tableId")}
	}
	written.body = []member{{"properties", properties}}
	m := s.module(n.symbol+"Made", s.group(id),
		&deployment{params: params, nodes: []*node{written}}, args...)
	m.comment = "Makes a subnet in the existing network " + id.Parent().Name() + "."
	there.madeBy = m
	return m
}

// inItsGroup returns a node. For a role assignment on an existing resource, it returns a module in
// that resource's group.
func (s *steps) inItsGroup(n *node) *node {
	if n.kind != arm.TypeRoleAssignment || n.on == nil || !n.on.existing {
		return n
	}
	m := s.assignedIn(n, s.group(n.on.id), within(n.on.id, mark("param", "scopeName")))
	m.module.params = append(m.module.params,
		param{name: "scopeName", about: "What the role is assigned on."})
	m.args = append(m.args, member{"scopeName", n.on.name})
	return m
}

// assignedIn assigns a role in an existing resource group: on the last of the given resources, or
// on the group itself if none is given.
func (s *steps) assignedIn(n *node, group arm.ID, at []*node) *node {
	properties := n.properties()
	inner := &node{symbol: "assignment", kind: n.kind, version: versions[n.kind],
		name: mark("param", "name"), body: []member{{"properties", object{
			"roleDefinitionId": mark("param", "roleDefinitionId"),
			"principalId":      mark("param", "principalId"),
			"principalType":    properties["principalType"],
		}}}}
	if len(at) > 0 {
		inner.on = at[len(at)-1]
	}
	m := s.module(n.symbol, group, &deployment{params: []param{
		{name: "name", about: "The name of the assignment: a GUID."},
		{name: "roleDefinitionId", about: "The role."},
		{name: "principalId", about: "The object ID of the identity that gets it."},
	}, nodes: append(at, inner)},
		member{"name", n.name}, member{"roleDefinitionId", properties["roleDefinitionId"]},
		member{"principalId", properties["principalId"]})
	m.comment, m.after = n.comment, n.after
	return m
}

// waitForNetwork makes nodes depend on the resources that make or change the subnets to which they
// refer.
func (s *steps) waitForNetwork() {
	for _, n := range s.nodes {
		if n.existing {
			continue
		}
		implied := n.implied()
		for _, other := range s.nodes {
			m := other.madeBy
			if m != nil && m != n && implied[other.symbol] && !slices.Contains(n.after, m) {
				n.after = append(n.after, m)
			}
		}
	}
}

// Changes says what the code changes in an existing network, a line each.
func (b Blueprint) Changes() (lines []string) {
	for _, step := range b.Cluster.Steps() {
		switch {
		case step.Associates != "":
			lines = append(lines, fmt.Sprintf("associates the route table %s with the existing "+
				"subnet %s", step.Associates.Name(), step.ID.Short()))
		case step.Guest:
			lines = append(lines, fmt.Sprintf("makes the subnet %s", step.ID.Short()))
		}
	}
	return lines
}
