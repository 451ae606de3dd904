package emulator

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

const typeRoleDefinition = "Microsoft.Authorization/roleDefinitions"

// role is what a role definition says of actions.
type role struct {
	guid, name, description string
	custom                  bool
	permissions             []permission
}

type permission struct{ actions, notActions, dataActions, notDataActions []string }

const networkContributor = "4d97b98b-1d4f-4787-a291-c67834d212e7"

// builtInRoles are some of Azure's, with their real GUIDs and actions (built-in-roles
// documentation).
var builtInRoles = []role{
	{guid: "8e3af657-a8ff-443c-a75c-2fe8c4bcb635", name: "Owner",
		description: "Grants full access to manage all resources, including the ability to " +
			"assign roles in Azure RBAC.",
		permissions: []permission{{actions: []string{"*"}}}},
	{guid: "b24988ac-6180-42a0-ab88-20f7382dd24c", name: "Contributor",
		description: "Grants full access to manage all resources, but does not allow you to " +
			"assign roles in Azure RBAC, manage assignments in Azure Blueprints, or share image " +
			"galleries.",
		permissions: []permission{{actions: []string{"*"}, notActions: []string{
			"Microsoft.Authorization/*/Delete", "Microsoft.Authorization/*/Write",
			"Microsoft.Authorization/elevateAccess/Action",
			"Microsoft.Blueprint/blueprintAssignments/write",
			"Microsoft.Blueprint/blueprintAssignments/delete",
			"Microsoft.Compute/galleries/share/action", "Microsoft.Purview/consents/write",
			"Microsoft.Purview/consents/delete",
			"Microsoft.Resources/deploymentStacks/manageDenySetting/action"}}}},
	{guid: "acdd72a7-3385-48ef-bd42-f606fba81ae7", name: "Reader",
		description: "View all resources, but does not allow you to make any changes.",
		permissions: []permission{{actions: []string{"*/read"}}}},
	{guid: "18d7d88d-d35e-4fb5-a5c3-7773c20a72d9", name: "User Access Administrator",
		description: "Lets you manage user access to Azure resources.",
		permissions: []permission{
			{actions: []string{"*/read", "Microsoft.Authorization/*", "Microsoft.Support/*"}}}},
	{guid: "f58310d9-a9f6-439a-9e8d-f62e7b41a168", name: "Role Based Access Control Administrator",
		description: "Manage access to Azure resources by assigning roles using Azure RBAC. This " +
			"role does not allow you to manage access using other ways, such as Azure Policy.",
		permissions: []permission{
			{actions: []string{"Microsoft.Authorization/roleAssignments/write",
				"Microsoft.Authorization/roleAssignments/delete", "*/read",
				"Microsoft.Support/*"}}}},
	{guid: networkContributor, name: "Network Contributor",
		description: "Lets you manage networks, but not access to them.",
		permissions: []permission{
			{actions: []string{"Microsoft.Authorization/*/read", "Microsoft.Insights/alertRules/*",
				"Microsoft.Network/*", "Microsoft.ResourceHealth/availabilityStatuses/read",
				"Microsoft.Resources/deployments/*",
				"Microsoft.Resources/subscriptions/resourceGroups/read", "Microsoft.Support/*"}}}},
	{guid: "f1a07417-d97a-45cb-824c-7a7467783830", name: "Managed Identity Operator",
		description: "Read and Assign User Assigned Identity",
		permissions: []permission{
			{actions: []string{"Microsoft.ManagedIdentity/userAssignedIdentities/*/read",
				"Microsoft.ManagedIdentity/userAssignedIdentities/*/assign/action",
				"Microsoft.Authorization/*/read",
				"Microsoft.Insights/alertRules/*",
				"Microsoft.Resources/subscriptions/resourceGroups/read",
				"Microsoft.Resources/deployments/*", "Microsoft.Support/*"}}}},
	{guid: "ed7f3fbd-7b88-4dd4-9017-9adb7ce333f8",
		name: "Azure Kubernetes Service Contributor Role", description: "Grants access to read " +
			"and write Azure Kubernetes Service clusters",
		permissions: []permission{
			{actions: []string{"Microsoft.ContainerService/locations/*",
				"Microsoft.ContainerService/managedClusters/*",
				"Microsoft.ContainerService/managedclustersnapshots/*",
				"Microsoft.ContainerService/snapshots/*", "Microsoft.Insights/alertRules/*",
				"Microsoft.Resources/deployments/*",
				"Microsoft.Resources/subscriptions/resourceGroups/read"}}}},
	{guid: "0ab0b1a8-8aac-4efd-b8c2-3ee1fb270be8", name: "Azure Kubernetes Service Cluster Admin " +
		"Role", description: "List cluster admin credential action.",
		permissions: []permission{
			{actions: []string{
				"Microsoft.ContainerService/managedClusters/listClusterAdminCredential/action",
				"Microsoft.ContainerService/managedClusters/accessProfiles/listCredential/action",
				"Microsoft.ContainerService/managedClusters/read",
				"Microsoft.ContainerService/managedClusters/runcommand/action"}}}},
	{guid: "4abbcc35-e782-43d8-92c5-2d3f1bd2253f", name: "Azure Kubernetes Service Cluster User " +
		"Role", description: "List cluster user credential action.",
		permissions: []permission{
			{actions: []string{
				"Microsoft.ContainerService/managedClusters/listClusterUserCredential/action",
				"Microsoft.ContainerService/managedClusters/read"}}}},
	{guid: "b1ff04bb-8a4e-4dc4-8eb5-8693973ce19b", name: "Azure Kubernetes Service RBAC Cluster " +
		"Admin", description: "Lets you manage all resources in the cluster.",
		permissions: []permission{
			{actions: append(clusterActions,
				"Microsoft.ContainerService/managedClusters/listClusterUserCredential/action"),
				dataActions: []string{"Microsoft.ContainerService/managedClusters/*"}}}},
	{guid: "7f6c6a51-bcf8-42ba-9220-52d62157d7db", name: "Azure Kubernetes Service RBAC Reader",
		description: "Allows read-only access to see most objects in a namespace. It does not " +
			"allow viewing roles or role bindings. This role does not allow viewing Secrets, " +
			"since reading the contents of Secrets enables access to ServiceAccount credentials " +
			"in the namespace, which would allow API access as any ServiceAccount in the " +
			"namespace (a form of privilege escalation). Applying this role at cluster scope " +
			"will give access across all namespaces.",
		permissions: []permission{{actions: clusterActions, dataActions: clusterReads}}},
}

// What the roles inside a cluster have in common, in Azure and in the cluster.
var (
	clusterActions = []string{"Microsoft.Authorization/*/read",
		"Microsoft.Resources/subscriptions/operationresults/read",
		"Microsoft.Resources/subscriptions/read",
		"Microsoft.Resources/subscriptions/resourceGroups/read"}
	clusterReads = dataReads("apps/controllerrevisions", "apps/daemonsets", "apps/deployments",
		"apps/replicasets", "apps/statefulsets", "autoscaling/horizontalpodautoscalers",
		"batch/cronjobs", "batch/jobs",
		"configmaps", "discovery.k8s.io/endpointslices", "endpoints", "events.k8s.io/events",
		"events", "extensions/daemonsets", "extensions/deployments", "extensions/ingresses",
		"extensions/networkpolicies",
		"extensions/replicasets", "limitranges", "metrics.k8s.io/pods", "metrics.k8s.io/nodes",
		"namespaces", "networking.k8s.io/ingresses", "networking.k8s.io/networkpolicies",
		"persistentvolumeclaims", "pods",
		"policy/poddisruptionbudgets", "replicationcontrollers", "resourcequotas",
		"serviceaccounts", "services")
)

func dataReads(kinds ...string) []string {
	var out []string
	for _, k := range kinds {
		out = append(out, "Microsoft.ContainerService/managedClusters/"+k+"/read")
	}
	return out
}

// roleByGUID finds a built-in role, or a custom one wherever it was defined.
func (s *authorization) roleByGUID(guid string) (role, bool) {
	for _, r := range builtInRoles {
		if strings.EqualFold(r.guid, guid) {
			return r, true
		}
	}
	for _, r := range s.kernel.store.byType[strings.ToLower(typeRoleDefinition)] {
		if strings.EqualFold(r.id.Name(), guid) {
			return roleOf(r), true
		}
	}
	return role{}, false
}

// roleOf reads a custom role's document.
func roleOf(r *resource) role {
	p := objectAt(r.body, "properties")
	out := role{guid: r.id.Name(), name: text(p, "roleName"), custom: true}
	for _, q := range listAt(p, "permissions") {
		out.permissions = append(out.permissions,
			permission{list(q, "actions"), list(q, "notActions"), list(q, "dataActions"),
				list(q, "notDataActions")})
	}
	return out
}

// allows reports whether the role grants an action, or a data action.
func (r role) allows(action string, data bool) bool {
	for _, p := range r.permissions {
		grants := func(pattern string) bool { return matchAction(pattern, action) }
		with, without := p.actions, p.notActions
		if data {
			with, without = p.dataActions, p.notDataActions
		}
		if slices.ContainsFunc(with, grants) && !slices.ContainsFunc(without, grants) {
			return true
		}
	}
	return false
}

// matchAction compares an action with a pattern, without case. A star stands for anything, slashes
// included; between slashes also for nothing: userAssignedIdentities/*/read lets read
// userAssignedIdentities.
func matchAction(pattern, action string) bool {
	pattern, action = strings.ToLower(pattern), strings.ToLower(action)
	if strings.Contains(pattern, "/*/") && matchStars(strings.ReplaceAll(pattern, "/*/", "/"),
		action) {
		return true
	}
	return matchStars(pattern, action)
}

func matchStars(pattern, s string) bool {
	head, rest, hasStar := strings.Cut(pattern, "*")
	if !hasStar {
		return pattern == s
	}
	if !strings.HasPrefix(s, head) {
		return false
	}
	s = s[len(head):]
	parts := strings.Split(rest, "*")
	for _, middle := range parts[:len(parts)-1] {
		i := strings.Index(s, middle)
		if i < 0 {
			return false
		}
		s = s[i+len(middle):]
	}
	return strings.HasSuffix(s, parts[len(parts)-1])
}

func (p permission) document() object {
	items := func(list []string) []any {
		out := []any{}
		for _, s := range list {
			out = append(out, s)
		}
		return out
	}
	return object{"actions": items(p.actions), "notActions": items(p.notActions),
		"dataActions": items(p.dataActions), "notDataActions": items(p.notDataActions)}
}

// document is a built-in role as it is seen from a subscription, or from nowhere ("").
func (r role) document(subscription string) object {
	permissions := []any{}
	for _, p := range r.permissions {
		permissions = append(permissions, p.document())
	}
	return object{
		"id": roleID(subscription, r.guid), "name": r.guid, "type": typeRoleDefinition,
		"properties": object{
			"roleName": r.name, "type": "BuiltInRole", "description": r.description,
			"assignableScopes": []any{"/"}, "permissions": permissions,
			"createdOn": "2015-02-02T21:55:09.8806423Z",
			"updatedOn": "2023-07-10T15:10:53.8891650Z", "createdBy": nil, "updatedBy": nil,
		},
	}
}

func roleID(subscription, guid string) string {
	id := "/providers/" + typeRoleDefinition + "/" + guid
	if subscription != "" {
		return "/subscriptions/" + subscription + id
	}
	return id
}

// settleRoleDefinition checks a custom role.
func (s *authorization) settleRoleDefinition(c *call, r, old *resource) *failure {
	r.etag = ""
	if !isGUID(r.id.Name()) {
		return fail(http.StatusBadRequest, "InvalidRoleDefinitionId",
			"The role definition ID '%s' is not valid. The role definition ID must be a GUID.",
			r.id.Name())
	}
	p := objectAt(r.body, "properties")
	p["type"] = "CustomRole"
	stampRole(p, old, c.who)
	name := text(p, "roleName")
	if name == "" || len(listAt(p, "permissions")) == 0 || len(list(p, "assignableScopes")) == 0 {
		return fail(http.StatusBadRequest, "InvalidRoleDefinition",
			"A custom role needs roleName, permissions and assignableScopes.")
	}
	taken := slices.ContainsFunc(builtInRoles, func(b role) bool {
		return strings.EqualFold(b.name, name) || strings.EqualFold(b.guid, r.id.Name())
	})
	for _, other := range s.kernel.store.byType[strings.ToLower(typeRoleDefinition)] {
		taken = taken || strings.EqualFold(roleOf(other).name, name) &&
			!strings.EqualFold(other.id.Name(), r.id.Name())
	}
	if taken {
		return fail(http.StatusConflict, "RoleDefinitionWithSameNameExists", "A custom role with "+
			"the same name already exists in this directory. Use a different name.")
	}
	return nil
}

// stampRole fills in what Azure says of a custom role: by whom and when, and lists that are empty.
func stampRole(p object, old *resource, by Principal) {
	now := time.Now().UTC().Format("2006-01-02T15:04:05.0000000Z")
	p["createdOn"], p["updatedOn"], p["createdBy"], p["updatedBy"] = now, now, by.ObjectID,
		by.ObjectID
	if old != nil {
		was := objectAt(old.body, "properties")
		p["createdOn"], p["createdBy"] = was["createdOn"], was["createdBy"]
	}
	for _, q := range listAt(p, "permissions") {
		for _, name := range []string{"actions", "notActions", "dataActions", "notDataActions"} {
			if q[name] == nil {
				q[name] = []any{}
			}
		}
	}
}

// roleDefinitionRemovable refuses while it is assigned.
func (s *authorization) roleDefinitionRemovable(r *resource) *failure {
	for _, a := range s.kernel.store.byType[strings.ToLower(typeRoleAssignment)] {
		if strings.EqualFold(roleGUID(a), r.id.Name()) {
			return fail(http.StatusBadRequest, "RoleDefinitionHasAssignments",
				"There are existing role assignments referencing role (code: "+
					"RoleDefinitionHasAssignments).")
		}
	}
	return nil
}

var roleFilter = regexp.MustCompile(`(?i)(roleName|type)\s+eq\s+'([^']*)'`)

// roleDefinitionCall answers for role definitions at any scope: built-in ones are everywhere,
// custom ones where they can be assigned.
func (s *authorization) roleDefinitionCall(c *call) (reply, *failure, bool) {
	scope, rest, found := extension(c, "roleDefinitions")
	if found && len(rest) == 1 && scope.ResourceGroup() != "" {
		// It belongs to the subscription, wherever below it is written [R].
		c.path = strings.Split(strings.TrimPrefix(roleID(scope.Subscription(), rest[0]), "/"), "/")
	}
	if !found || c.method != http.MethodGet {
		return reply{}, nil, false
	}
	docs := []object{}
	for _, r := range builtInRoles {
		docs = append(docs, r.asOf(c).document(scope.Subscription()))
	}
	for _, r := range s.kernel.store.list(typeRoleDefinition, "") {
		for _, assignable := range list(objectAt(r.body, "properties"), "assignableScopes") {
			if scope == "" || covers(arm.ID(assignable), scope) ||
				covers(scope, arm.ID(assignable)) {
				docs = append(docs, s.kernel.document(r, c.version))
				break
			}
		}
	}
	if len(rest) == 1 {
		for _, d := range docs {
			if strings.EqualFold(text(d, "name"), rest[0]) {
				return ok(d), nil, true
			}
		}
		return reply{}, fail(http.StatusNotFound, "RoleDefinitionDoesNotExist",
			"The specified role definition with ID '%s' does not exist.", rest[0]), true
	}
	for _, m := range roleFilter.FindAllStringSubmatch(c.param("$filter"), -1) {
		field := map[bool]string{true: "type", false: "roleName"}[strings.EqualFold(m[1], "type")]
		docs = slices.DeleteFunc(docs, func(d object) bool {
			return !strings.EqualFold(text(objectAt(d, "properties"), field), m[2])
		})
	}
	answer, f := s.kernel.pageObjects(c, docs)
	return answer, f, true
}

// extension reads the path of something of Microsoft.Authorization at any scope, "" being above all
// subscriptions: what comes behind its type.
func extension(c *call, typeName string) (scope arm.ID, rest []string, found bool) {
	for i := len(c.path) - 3; i >= 0 && i >= len(c.path)-4; i-- {
		if strings.EqualFold(c.path[i], "providers") &&
			strings.EqualFold(c.path[i+1], "Microsoft.Authorization") &&
			strings.EqualFold(c.path[i+2], typeName) {
			if i > 0 {
				scope = arm.ID("/" + strings.Join(c.path[:i], "/"))
			}
			return scope, c.path[i+3:], true
		}
	}
	return "", nil, false
}
