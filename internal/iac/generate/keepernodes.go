package generate

import (
	"fmt"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/build"
	"routekeeper.dev/routekeeper/internal/capacity"
)

const (
	typeCredential   = arm.TypeIdentity + "/federatedIdentityCredentials"
	typeEnvironment  = "Microsoft.App/managedEnvironments"
	typeContainerApp = "Microsoft.App/containerApps"
)

// Where a keeper runs in a cluster, and what it listens at.
const (
	keeperNamespace = "routekeeper"
	keeperAccount   = "routekeeper"
	keeperPort      = 8080  // of a container app
	clusterPort     = 18080 // on a node, where 8080 is often taken
)

const aboutImage = "The image with routekeeper as its entry point, such as " +
	"registry.example.com/routekeeper:1.0."

// keep adds the keeper with its identity, its rights and what runs it, and its config.
func (s *steps) keep(host Host) {
	config := s.config()
	if s.marked.Blueprint == capacity.Kubenet {
		s.outputs = append(s.outputs,
			binding{"routes", "The keeper's config: routekeeper run -f routes.yaml", config})
	}
	if host == "" {
		return
	}
	s.params = append(s.params, param{name: "image", about: aboutImage})
	identity := s.add(&node{
		symbol: "keeper", kind: arm.TypeIdentity, name: markName + "-keeper",
		comment: "The keeper's identity. None of its rights allows writing the cluster's route " +
			"table.",
		body: []member{{"location", markLocation}, {"tags", tags()}},
	})
	s.keeperRoles(identity)
	switch host {
	case HostAKS:
		s.keeperInCluster(identity, config)
	case HostContainerApps:
		s.keeperApp(identity, config)
	}
}

func tags() object { return object{build.OwnerTag: markOwner} }

// add adds a node.
func (s *steps) add(n *node) *node {
	n.version = versions[n.kind]
	s.nodes = append(s.nodes, n)
	return n
}

// config returns the config of a cluster that is built, as YAML.
func (s *steps) config() lines {
	c := s.marked
	out := lines{
		"apiVersion: routekeeper.dev/v1alpha1", "kind: ClusterRoutes", "metadata:", "  name: " +
			markName,
		"spec:", "  clusterID: " + mark("id", "cluster"), "  routeTableID: " +
			mark("id", "nodeTable"),
		"  guard:", "    mode: Enforce",
	}
	if table := s.symbols[c.GatewayTableID()]; c.HasGatewayTable() {
		out = append(out, "    subnets:", "      - subnetID: "+mark("id", "gatewaySubnet"),
			"        routeTableID: "+mark("id", table))
		if table != "nodeTable" { // the node table has the routes already
			out = append(out, "  targets:", "    - routeTableID: "+mark("id", table))
		}
	}
	return append(out, "")
}

// keeperRoles adds the keeper's permissions: what it reads in the subscription, and everything else
// where it is used.
func (s *steps) keeperRoles(identity *node) {
	on := map[string][]*node{"links": {nil}, "subnets": {s.deployment.node("nodeSubnet")}}
	if table := s.symbols[s.marked.GatewayTableID()]; s.marked.HasGatewayTable() {
		on["subnets"] = append(on["subnets"], s.deployment.node("gatewaySubnet"))
		if table != "nodeTable" { // the node table is no target
			on["targets"] = []*node{s.deployment.node(table)}
		}
	}
	var groups []any
	for _, group := range s.linked {
		groups = append(groups, string(group))
	}
	principal := mark("get", identity.symbol, "principalId")
	for _, role := range KeeperRoles() {
		if role.Name == "reads" {
			s.add(&node{
				symbol: "keeperReads", kind: typeDeployment, module: readsModule(role),
				comment: comment(role),
				args: []member{
					{"clusterId", mark("var", "clusterId")}, {"name", markName}, {"principalId",
						principal},
				},
			})
			continue
		}
		if len(on[role.Name]) == 0 {
			continue
		}
		purpose := "keeper-" + role.Name
		definition := s.add(roleNode(role, purpose, append([]any{markGroupID}, groups...)...))
		definition.symbol = "keeper" + title(role.Name)
		for _, n := range on[role.Name] {
			symbol, at := "Group", ""
			if n != nil {
				symbol, at = title(n.symbol), n.symbol
			}
			s.add(s.inItsGroup(assignmentNode(definition.symbol+"On"+symbol, definition.symbol, n,
				mark("guid", purpose, at), principal)))
		}
		if role.Name != "links" {
			continue
		}
		for i, group := range s.linked {
			n := assignmentNode(fmt.Sprintf("%sOnGroup%d", definition.symbol, i+1),
				definition.symbol, nil, mark("guid", purpose, "", group.Key()), principal)
			s.add(s.assignedIn(n, group, nil))
		}
	}
	s.waitForNetwork()
}

func title(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func comment(role KeeperRole) string { return title(role.Name) + ": on " + role.Where + "." }

// roleNode returns the definition of a role that can be assigned in a scope.
func roleNode(role KeeperRole, purpose string, scopes ...any) *node {
	var actions []any
	for _, a := range role.Actions {
		actions = append(actions, a.Action)
	}
	return &node{
		kind: arm.TypeRoleDefinition, name: mark("guid", purpose), comment: comment(role),
		body: []member{{"properties", object{
			"roleName": markName + " routekeeper " + role.Name + " (" + mark("guid8", purpose) +
				")",
			"description": "What routekeeper needs: " + role.Name + ".", "type": "CustomRole",
			"permissions": []any{object{"actions": actions}}, "assignableScopes": scopes,
		}}},
	}
}

func assignmentNode(symbol, role string, on *node, name, principal string) *node {
	return &node{
		symbol: symbol, kind: arm.TypeRoleAssignment, on: on, name: name,
		body: []member{{"properties", object{
			"roleDefinitionId": mark("id", role), "principalId": principal,
			"principalType": "ServicePrincipal",
		}}},
	}
}

// readsModule defines and assigns what the keeper reads, in the subscription.
func readsModule(role KeeperRole) *deployment {
	definition := roleNode(role, "keeper-reads", mark("subscriptionid"))
	definition.symbol, definition.version = "role", versions[arm.TypeRoleDefinition]
	assignment := assignmentNode("assignment", "role", nil, mark("guid", "keeper-reads-assignment"),
		mark("param", "principalId"))
	assignment.version = versions[arm.TypeRoleAssignment]
	return &deployment{scope: "subscription", params: []param{
		{name: "clusterId", about: "Names derive from it: the same cluster gets the same names."},
		{name: "name", about: "The prefix of the role's name."},
		{name: "principalId", about: "The object ID of the keeper's identity."},
	}, nodes: []*node{definition, assignment}}
}

// keeperInCluster lets pods of the cluster log in as the keeper, and says what to apply to the
// cluster.
func (s *steps) keeperInCluster(identity *node, config lines) {
	s.add(&node{
		symbol: "keeperCredential", kind: typeCredential, parent: identity, name: "routekeeper",
		comment: "The keeper's pods log in as its service account, without a secret.",
		body: []member{{"properties", object{
			"issuer":    mark("get", "cluster", "oidcIssuerProfile.issuerURL"),
			"subject":   "system:serviceaccount:" + keeperNamespace + ":" + keeperAccount,
			"audiences": []any{"api://AzureADTokenExchange"},
		}}},
	})
	s.outputs = append(s.outputs,
		binding{"keeperManifest", "The keeper's workload in the cluster: kubectl apply -f " +
			"keeper.yaml",
			manifest(config, mark("get", identity.symbol, "clientId"), mark("param", "image"))})
}

// keeperApp runs the keeper as a container app, outside of the cluster.
func (s *steps) keeperApp(identity *node, config lines) {
	s.params = append(s.params, param{name: "eventSecret", secret: true,
		about: "The secret of the callers of the keeper's listener, at least 16 characters."})
	environment := s.add(&node{
		symbol: "keeperEnvironment", kind: typeEnvironment, name: markName + "-keeper",
		comment: "The keeper runs outside of the cluster's network, so that it works when that " +
			"fails.",
		body: []member{{"location", markLocation}, {"tags", tags()}, {"properties", object{
			"workloadProfiles": []any{
				object{"name": "Consumption", "workloadProfileType": "Consumption"}},
		}}},
	})
	probe := func(kind, path string, failures int) any {
		return object{"type": kind, "httpGet": object{"path": path, "port": keeperPort},
			"periodSeconds": 10, "failureThreshold": failures}
	}
	s.add(&node{
		symbol: "keeperApp", kind: typeContainerApp, name: markName + "-keeper",
		comment: "Always one keeper: two would only do the same work twice. Its secrets are " +
			"mounted as files.",
		body: []member{{"location", markLocation}, {"tags", tags()}, {"identity", object{
			"type": "UserAssigned", "userAssignedIdentities": object{
				mark("id", identity.symbol): object{}},
		}}, {"properties", object{
			"environmentId": mark("id", environment.symbol), "workloadProfileName": "Consumption",
			"configuration": object{"activeRevisionsMode": "Single", "secrets": []any{
				object{"name": "routes", "value": config},
				object{"name": "event-secret", "value": mark("param", "eventSecret")},
			}},
			"template": object{
				"containers": []any{object{
					"name": "routekeeper", "image": mark("param", "image"),
					"args": []any{"run", "-f", "/etc/routekeeper/routes", "--listen", ":8080",
						"--event-secret-file", "/etc/routekeeper/event-secret"},
					"env": []any{object{"name": "AZURE_CLIENT_ID",
						"value": mark("get", identity.symbol, "clientId")}},
					"resources": object{"cpu": mark("json", "0.25"), "memory": "0.5Gi"},
					"probes": []any{probe("Liveness", "/livez", 3),
						probe("Readiness", "/readyz", 3)},
					"volumeMounts": []any{
						object{"volumeName": "config", "mountPath": "/etc/routekeeper"}},
				}},
				"scale":   object{"minReplicas": 1, "maxReplicas": 1},
				"volumes": []any{object{"name": "config", "storageType": "Secret"}},
			},
		}}},
		after: s.assignments(),
	})
}

// assignments returns the keeper's role assignments, which must exist before the keeper starts.
func (s *steps) assignments() []*node {
	var out []*node
	for _, n := range s.nodes {
		if strings.HasPrefix(n.symbol, "keeper") &&
			(n.kind == arm.TypeRoleAssignment || n.module != nil) {
			out = append(out, n)
		}
	}
	return out
}
