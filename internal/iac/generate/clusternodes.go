package generate

import (
	"fmt"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/build"
	"routekeeper.dev/routekeeper/internal/capacity"
)

// versions are the api-versions of the written resources.
var versions = map[string]string{
	arm.TypeIdentity: "2024-11-30", arm.TypeRoleDefinition: "2022-04-01",
	arm.TypeRoleAssignment: "2022-04-01",
	arm.TypeCluster:        "2025-10-01", arm.TypeRouteTable: "2025-05-01",
	arm.TypeRoute: "2025-05-01",
	arm.TypeVNet:  "2025-05-01", arm.TypeSubnet: "2025-05-01", arm.TypePublicIP: "2025-05-01",
	arm.TypeGateway: "2025-05-01", typeCredential: "2024-11-30",
	typeEnvironment: "2025-07-01", typeContainerApp: "2025-07-01", typeDeployment: "2025-04-01",
	typePolicy: "2023-04-01", typeAssignment: "2023-04-01", typeExemption: "2022-07-01-preview",
}

const typeDeployment = "Microsoft.Resources/deployments"

// Marks for the cluster's values.
var (
	markName     = mark("param", "name")
	markLocation = mark("param", "location")
	markGroupID  = mark("groupid")
	markOwner    = mark("var", "owner")
)

// steps turns the steps that build a cluster into nodes of a deployment's code (node.go).
type steps struct {
	*deployment
	marked build.Cluster
	// linked has the resource groups of an existing network and of the resources that its subnets
	// link to.
	linked []arm.ID
	// symbols has the symbolic names of the resources, by ID. replaced replaces texts that depend
	// on the cluster with marks (see mark).
	symbols  map[arm.ID]string
	replaced *strings.Replacer
}

// newSteps returns the deployment of a cluster to an existing resource group.
func newSteps(c build.Cluster) (*steps, error) {
	m := c
	m.Name, m.Location = markName, markLocation
	m.Subscription, m.Group = mark("subscription"), mark("GROUP")
	m.Existing = c.Existing.Moved(c.GroupID(), m.GroupID())
	s := &steps{marked: m, linked: c.Existing.LinkedGroups(c.GroupID()),
		deployment: &deployment{scope: "resourceGroup", params: []param{
			{name: "name", value: c.Name, about: "The prefix of all resource names."},
			{name: "location", value: mark("grouplocation"), about: "The Azure region."},
		}, vars: []binding{
			{name: "clusterId", value: mark("clusterid"),
				about: "Names of roles and assignments derive from it, so they are stable " +
					"for a cluster."},
			{name: "owner", value: mark("owner"),
				about: "The tag of all resources of the cluster."},
		}}}
	s.symbols = map[arm.ID]string{
		m.NodeTableID().Child("routes", "egress"): "egress",
		m.GatewayTableID():                        "gatewayTable", m.VNetID(): "network",
		m.NodeSubnetID(): "nodeSubnet",
		m.PodSubnetID():  "podSubnet", m.GatewaySubnetID(): "gatewaySubnet",
		m.IdentityID(): "identity",
		m.RoleID():     "role", m.AddressID(): "gatewayAddress", m.GatewayID(): "gateway",
		m.ClusterID(): "cluster",
	}
	s.symbols[m.NodeTableID()] = "nodeTable" // an existing gateway may also use this table
	role := m.RoleID().Name()
	s.replaced = strings.NewReplacer(m.Owner(), markOwner, role, mark("guid", "role"),
		"("+role[:8]+")", "("+mark("guid8", "role")+")")
	made := build.Made{
		m.IdentityID().Key(): document(m.IdentityID(), `{"properties": {"principalId": %q}}`,
			mark("get", "identity", "principalId")),
		m.ClusterID().Key(): document(m.ClusterID(), `{"properties": {"addonProfiles": `+
			`{"ingressApplicationGateway": {"identity": {"objectId": %q}}}}}`,
			mark("get", "cluster", "addonProfiles.ingressApplicationGateway.identity.objectId")),
	}
	var last *node // the previous subnet: a network accepts one write at a time
	var assigned []*node
	for _, step := range m.Steps() {
		if step.ID == m.GroupID() {
			continue
		}
		n, err := s.node(step, made)
		if err != nil {
			return nil, err
		}
		kind := n.kind
		if n = s.placed(step, n); n == nil {
			continue
		}
		switch kind {
		case arm.TypeSubnet:
			if last != nil {
				n.after = append(n.after, last)
			}
			last = n
			n.after = append(n.after, s.egress()...)
		case arm.TypeRoleAssignment:
			assigned = append(assigned, n)
		case arm.TypeCluster:
			n.after = append(append(n.after, assigned...), s.egress()...)
		}
		s.nodes = append(s.nodes, n)
	}
	s.waitForNetwork()
	s.outputs = []binding{{name: "clusterId", value: mark("id", "cluster")}}
	return s, nil
}

// egress returns the route to the firewall, if it is made.
func (s *steps) egress() []*node {
	if s.has("egress") {
		return []*node{s.deployment.node("egress")}
	}
	return nil
}

func document(id arm.ID, format, value string) arm.Document {
	quoted := strings.NewReplacer(markStart, `\u0001`, markEnd, `\u0002`).Replace(value)
	return arm.Document{ID: id,
		Raw: []byte(fmt.Sprintf(strings.Replace(format, "%q", `"%s"`, 1), quoted))}
}

// node returns the node of a step.
func (s *steps) node(step build.Step, made build.Made) (*node, error) {
	n := &node{kind: step.ID.Type(), name: string(step.ID.Name())}
	n.version = versions[n.kind]
	n.symbol = s.symbols[step.ID]
	var err error
	switch {
	case n.kind == arm.TypeRoleAssignment:
		err = s.assignment(n, step.ID)
	case n.symbol == "" || n.version == "":
		err = fmt.Errorf("no code can be written for the %s %s", step.What(), step.ID)
	}
	if err != nil {
		return nil, err
	}
	if n.kind == arm.TypeRoleDefinition {
		n.name = mark("guid", "role")
	}
	symbol := s.symbols[step.ID.Parent()]
	if symbol != "" && n.kind != arm.TypeRoleAssignment && s.has(symbol) {
		n.parent = s.deployment.node(symbol)
	}
	n.comment = comments(s.marked)[n.symbol]
	// Some resources are written only once, because other writers change them: routes, links of a
	// subnet, and what the add-on configures.
	n.once = n.kind == arm.TypeRouteTable || n.kind == arm.TypeSubnet || n.kind == arm.TypeGateway
	for _, m := range ordered(step.Body(made)) {
		value, err := s.value(m.value)
		if err != nil {
			return nil, err
		}
		n.body = append(n.body, member{m.name, value})
	}
	if n.kind == arm.TypeRouteTable {
		n.body = append(n.body, member{"properties", object{}})
	}
	return n, nil
}

// assignment sets the scope and the name of a role assignment.
func (s *steps) assignment(n *node, id arm.ID) error {
	scope, _, _ := strings.Cut(string(id), "/providers/"+arm.TypeRoleAssignment)
	symbol := s.symbols[arm.ID(scope)]
	at := symbol
	switch {
	case symbol != "":
		n.on = s.deployment.node(symbol)
	case arm.ID(scope) == s.marked.GroupID():
		at = "group"
	default:
		return fmt.Errorf("no code can be written for a role assignment on %s", scope)
	}
	for purpose, prefix := range map[string]string{"assignment": "roleOn", "add-on": "addonOn"} {
		if s.marked.GUID(purpose, arm.ID(scope)) == id.Name() {
			n.symbol = prefix + strings.ToUpper(at[:1]) + at[1:]
			n.name = mark("guid", purpose, symbol)
			return nil
		}
	}
	return fmt.Errorf("the role assignment %s has a name of another kind", id)
}

// value returns a value of a body, with marks for everything that it refers to.
func (s *steps) value(v any) (any, error) {
	switch v := v.(type) {
	case object:
		out := object{}
		for name, item := range v {
			value, err := s.value(item)
			if err != nil {
				return nil, err
			}
			key, err := s.text(name)
			if err != nil {
				return nil, err
			}
			out[key] = value
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			var err error
			if out[i], err = s.value(item); err != nil {
				return nil, err
			}
		}
		return out, nil
	case string:
		return s.text(v)
	}
	return v, nil
}

func (s *steps) text(text string) (string, error) {
	if !strings.HasPrefix(text, "/subscriptions/") {
		return s.replaced.Replace(text), nil
	}
	id := arm.ID(text)
	if id != s.marked.GroupID() && id.Is(arm.TypeResourceGroup) {
		return text, nil // of an existing network
	}
	if symbol := s.symbols[id]; symbol != "" {
		return mark("id", symbol), nil
	}
	if id == s.marked.GroupID() {
		return markGroupID, nil
	}
	if id.Is(arm.TypeRoleDefinition) {
		return mark("builtin", id.Name()), nil
	}
	if symbol := s.symbols[id.Parent()]; symbol != "" {
		kind := id.Type()
		return mark("part", symbol, kind[strings.LastIndex(kind, "/")+1:], id.Name()), nil
	}
	return "", fmt.Errorf("no code can be written for a reference to %s", id)
}

// comments explain resources, by symbol.
func comments(c build.Cluster) map[string]string {
	out := map[string]string{
		"egress": "A separate resource, so that a change does not write the table's other routes.",
		"nodeSubnet": "The nodes' subnet. A template replaces a whole subnet, without what " +
			"others have linked to it, so it is made once and never written again. A network " +
			"accepts one write at a time, so its subnets are made one after the other.",
		"podSubnet":      "The pods' subnet.",
		"gatewayAddress": "The gateway's public address.",
		"addonOnGateway": "AKS makes an identity for the add-on, which writes the gateway: " +
			"Contributor.",
		"addonOnGroup":         "The add-on reads the resource group: Reader.",
		"addonOnGatewaySubnet": "The add-on joins the gateway's subnet.",
		"network": "No subnets here: a network that lists subnets replaces each of " +
			"them. A network without the list leaves its subnets alone.",
		"gatewaySubnet": "For the Application Gateway only.",
		"gatewayTable": "The gateway sends to pods directly, so it needs the pod routes too: " +
			"routekeeper copies them into this table. It is made once and never written again.",
		"identity": "The cluster's identity comes first: it needs its rights before the cluster " +
			"is made.",
		"role": "Exactly what the cluster needs on its network. Network Contributor allows much " +
			"more.",
		"gateway": "Made once, and never written again: the add-on writes its listeners, pools " +
			"and rules. To change its limits: az network application-gateway update.",
		"cluster": "A new role takes effect after a minute or two, at most an hour, and a " +
			"template cannot wait. If Azure refuses the cluster for lack of permissions, deploy " +
			"again.",
	}
	if c.Blueprint == capacity.Kubenet {
		out["nodeTable"] = "The cluster's route table. The cloud provider writes a route for " +
			"each node into it. A template replaces a whole table, without those routes, so it " +
			"is made once and never written again."
		out["cluster"] += " Azure retires kubenet on 31 March 2028; its successor is Azure CNI " +
			"Overlay."
	} else {
		out["nodeTable"] = "Sends egress traffic to the firewall. It is made once, and never " +
			"written again."
	}
	return out
}
