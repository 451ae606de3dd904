package generate

import (
	"fmt"

	"routekeeper.dev/routekeeper/internal/arm"
)

// ARM writes the rights as an ARM template for a subscription: the same roles, names and
// assignments as the Bicep.
func (r Rights) ARM() ([]Output, error) {
	l, err := r.check()
	if err != nil {
		return nil, err
	}
	return []Output{{"main.json", append(encode(l.template(), ""), '\n')}}, nil
}

// fields returns an object with an order: name, value, name, value.
func fields(pairs ...any) []member {
	var out []member
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, member{pairs[i].(string), pairs[i+1]})
	}
	return out
}

func (l rights) template() []member {
	home := l.Clusters[0].Cluster
	parameters := []member{}
	for _, p := range []struct{ name, value, about string }{
		{"name", l.Name, "The prefix of all resource names."},
		{"location", l.Location, "The Azure region."},
		{"keeperNamespace", "routekeeper", "The Kubernetes namespace that routekeeper runs in."},
		{"keeperServiceAccount", "routekeeper",
			"The Kubernetes service account that routekeeper runs as."},
		{"keeperIssuer", "", "The OIDC issuer of the cluster that routekeeper runs in, if it is " +
			"not the first managed cluster."},
	} {
		parameters = append(parameters, member{p.name, fields("type", "string", "defaultValue",
			p.value, "metadata", fields("description", p.about))})
	}
	issuer := fmt.Sprintf("[if(empty(parameters('keeperIssuer')), reference(%s, '%s')"+
		".oidcIssuerProfile.issuerURL, parameters('keeperIssuer'))]", idExpression(home),
		versions[arm.TypeCluster])
	group := "[format('{0}-keeper-rg', parameters('name'))]"
	resources := fields(
		"group", fields("type", arm.TypeResourceGroup, "apiVersion", "2024-03-01", "name", group,
			"location", "[parameters('location')]"),
		"keeper", nested("", group, "keeper", identityTemplate(), []string{"group"},
			"name", "[parameters('name')]", "location", "[parameters('location')]",
			"issuer", issuer, "subject", "[format('system:serviceaccount:{0}:{1}', "+
				"parameters('keeperNamespace'), parameters('keeperServiceAccount'))]"),
	)
	principal := "[reference('keeper').outputs.principalId.value]"
	roles := []string{"keeper"}
	for i, s := range l.Subscriptions {
		symbol := fmt.Sprintf("roles%d", i)
		resources = append(resources, member{symbol, nested(s, "", "roles", l.rolesTemplate(),
			[]string{"keeper"}, "name", "[parameters('name')]", "principalId", principal)})
		roles = append(roles, symbol)
	}
	add := func(symbol, subscription, group, name string, template []member, args ...any) {
		args = append(args, "name", "[parameters('name')]", "principalId", principal)
		resources = append(resources, member{symbol, nested(subscription, group, name, template,
			roles, args...)})
	}
	for i, k := range l.GuardedClusters {
		state := fmt.Sprintf("reference(%s, '%s')", idExpression(k.Cluster),
			versions[arm.TypeCluster])
		add(fmt.Sprintf("cluster%d", i), k.Cluster.Subscription(), "", fmt.Sprintf("cluster-%d", i),
			nodesTemplate(), "pools", "["+state+".agentPoolProfiles]",
			"nodeGroup", "["+state+".nodeResourceGroup]", "tableIsDiscovered", k.Table == "")
	}
	for i, id := range l.GuardedSubnets {
		add(fmt.Sprintf("subnet%d", i), id.Subscription(), id.ResourceGroup(),
			fmt.Sprintf("subnet-%d", i), subnetRole(), "vnetName", id.Parent().Name(), "subnetName",
			id.Name())
	}
	for i, id := range l.Targets {
		add(fmt.Sprintf("target%d", i), id.Subscription(), id.ResourceGroup(),
			fmt.Sprintf("target-%d", i), tableRole(), "tableName", id.Name())
	}
	for i, id := range l.NodesClusters {
		add(fmt.Sprintf("credentials%d", i), id.Subscription(), id.ResourceGroup(),
			fmt.Sprintf("credentials-%d", i), clusterRole(), "clusterName", id.Name())
	}
	for i, id := range l.LinkedGroups {
		add(fmt.Sprintf("links%d", i), id.Subscription(), id.ResourceGroup(),
			fmt.Sprintf("links-%d", i), groupRole(), "role", "links")
	}
	return fields("$schema", schemas["subscription"], "languageVersion", "2.0",
		"contentVersion", "1.0.0.0", "metadata", fields("description",
			"The keeper's identity and rights, for the clusters and tables of a routekeeper "+
				"config. Written by routekeeper iac generate.\n\n  az deployment sub create "+
				"--subscription "+l.Subscription+" --location "+l.Location+
				" --template-file main.json"),
		"parameters", parameters, "resources", resources,
		"outputs", fields("keeperClientId", fields("type", "string", "metadata",
			fields("description", "The service account's annotation "+
				"azure.workload.identity/client-id."),
			"value", "[reference('keeper').outputs.clientId.value]")))
}

// idExpression returns the ID of a resource in a resource group.
func idExpression(id arm.ID) string {
	return fmt.Sprintf("resourceId(%s, %s, '%s', %s)", armString(id.Subscription()),
		armString(id.ResourceGroup()), id.Type(), armString(id.Name()))
}

// nested returns a deployment to a resource group, or to a subscription if the group is "".
func nested(subscription, group, name string, template []member, after []string,
	args ...any) []member {
	out := fields("type", typeDeployment, "apiVersion", versions[typeDeployment], "name", name)
	if subscription != "" {
		out = append(out, member{"subscriptionId", subscription})
	}
	if group != "" {
		out = append(out, member{"resourceGroup", group})
	} else {
		out = append(out, member{"location", "[parameters('location')]"})
	}
	var given []member
	for _, a := range fields(args...) {
		given = append(given, member{a.name, fields("value", a.value)})
	}
	out = append(out, member{"properties", fields("mode", "Incremental",
		"expressionEvaluationOptions", fields("scope", "inner"), "parameters", given,
		"template", template)})
	var list []any
	for _, symbol := range after {
		list = append(list, symbol)
	}
	if len(list) > 0 {
		out = append(out, member{"dependsOn", list})
	}
	return out
}

// inner returns the template of a nested deployment, with parameters of some types.
func inner(scope string, parameters []member, more ...any) []member {
	var list []member
	for _, p := range parameters {
		list = append(list, member{p.name, fields("type", p.value)})
	}
	return append(fields("$schema", schemas[scope], "languageVersion", "2.0", "contentVersion",
		"1.0.0.0", "parameters", list), fields(more...)...)
}

func identityTemplate() []member {
	return inner("resourceGroup", fields("name", "string", "location", "string", "issuer", "string",
		"subject", "string"),
		"resources", fields(
			"identity", fields("type", arm.TypeIdentity, "apiVersion", versions[arm.TypeIdentity],
				"name", "[format('{0}-keeper', parameters('name'))]",
				"location", "[parameters('location')]"),
			"credential", fields("type", typeCredential, "apiVersion", versions[typeCredential],
				"comments", "Its pods log in as this service account, without a secret.",
				"name", "[format('{0}-keeper/routekeeper', parameters('name'))]",
				"properties", fields("issuer", "[parameters('issuer')]",
					"subject", "[parameters('subject')]",
					"audiences", []any{"api://AzureADTokenExchange"}),
				"dependsOn", []any{"identity"})),
		"outputs", fields(
			"principalId", fields("type", "string", "value",
				"[reference('identity').principalId]"),
			"clientId", fields("type", "string", "value", "[reference('identity').clientId]")))
}

// rolesTemplate defines the roles in a subscription, and assigns what the keeper reads there.
func (l rights) rolesTemplate() []member {
	var resources []member
	for _, role := range l.Roles {
		var actions []any
		for _, a := range role.Actions {
			actions = append(actions, a.Action)
		}
		resources = append(resources, member{role.Name, fields("type", typeRole,
			"apiVersion", versions[typeRole], "comments", comment(role), "name",
			roleName(role.Name),
			"properties", fields(
				"roleName", "[format('{0} routekeeper "+role.Name+
					" {1}', parameters('name'), uniqueString(subscription().id))]",
				"description", "What routekeeper needs: "+role.Name+".", "type", "customRole",
				"permissions", []any{fields("actions", actions)},
				"assignableScopes", []any{"[subscription().id]"}))})
	}
	resources = append(resources, member{"onSubscription", append(assigned(
		"[guid(subscription().id, parameters('name'), parameters('principalId'), 'reads')]", "",
		"'reads'"), member{"dependsOn", []any{"reads"}})})
	return inner("subscription", fields("name", "string", "principalId", "string"),
		"resources", resources)
}

// roleName returns the name of a role definition.
func roleName(role string) string {
	return "[guid(subscription().id, parameters('name'), '" + role + "')]"
}

// assigned returns a role assignment at a scope, "" for that of the deployment; role is an
// expression.
func assigned(name, scope, role string) []member {
	out := fields("type", arm.TypeRoleAssignment, "apiVersion", versions[arm.TypeRoleAssignment],
		"name", name)
	if scope != "" {
		out = append(out, member{"scope", "[" + scope + "]"})
	}
	return append(out, member{"properties", fields(
		"roleDefinitionId", "[subscriptionResourceId('"+typeRole+
			"', guid(subscription().id, parameters('name'), "+role+"))]",
		"principalId", "[parameters('principalId')]", "principalType", "ServicePrincipal")})
}

// groupRole, subnetRole, tableRole and clusterRole assign a role on a resource group or on a
// resource in it.
func groupRole() []member {
	return inner("resourceGroup", fields("name", "string", "principalId", "string", "role",
		"string"), "resources", fields("assignment", assigned("[guid(resourceGroup().id, "+
		"parameters('name'), parameters('principalId'), parameters('role'))]", "",
		"parameters('role')")))
}

func subnetRole() []member {
	id := "resourceId('" + arm.TypeSubnet + "', parameters('vnetName'), parameters('subnetName'))"
	return inner("resourceGroup", fields("name", "string", "principalId", "string", "vnetName",
		"string", "subnetName", "string"), "resources", fields("assignment", assigned("[guid("+id+
		", parameters('name'), parameters('principalId'), 'subnets')]", id, "'subnets'")))
}

func tableRole() []member {
	id := "resourceId('" + arm.TypeRouteTable + "', parameters('tableName'))"
	return inner("resourceGroup", fields("name", "string", "principalId", "string", "tableName",
		"string"), "resources", fields("assignment", assigned("[guid("+id+
		", parameters('name'), parameters('principalId'), 'targets')]", id, "'targets'")))
}

func clusterRole() []member {
	id := "resourceId('" + arm.TypeCluster + "', parameters('clusterName'))"
	return inner("resourceGroup", fields("name", "string", "principalId", "string", "clusterName",
		"string"), "resources", fields("assignment", assigned("[guid("+id+
		", parameters('name'), parameters('principalId'), 'credentials')]", id, "'credentials'")))
}

// nodesTemplate assigns the rights for a cluster's node subnets. If pools name no subnet, AKS made
// the network and the table, in the node resource group, which has no other network.
func nodesTemplate() []member {
	const subnet = "coalesce(tryGet(lambdaVariables('pool'), 'vnetSubnetID'), '')"
	part := func(n int) string {
		return fmt.Sprintf("[split(variables('subnetIds')[copyIndex()], '/')[%d]]", n)
	}
	common := []any{"name", "[parameters('name')]", "principalId", "[parameters('principalId')]"}
	each := func(name string, template []member, args ...any) []member {
		out := nested(part(2), part(4), "[format('"+name+
			"-{0}', uniqueString(variables('subnetIds')[copyIndex()]))]", template, nil,
			append(args, common...)...)
		return append(out, member{"copy", fields("name", name, "count",
			"[length(variables('subnetIds'))]")})
	}
	inNodeGroup := func(name, condition, role string) []member {
		out := nested("[subscription().subscriptionId]", "[parameters('nodeGroup')]",
			"[format('"+name+"-{0}', uniqueString(parameters('nodeGroup')))]", groupRole(), nil,
			append([]any{"role", role}, common...)...)
		return append(out, member{"condition", "[" + condition + "]"})
	}
	return inner("subscription", fields("name", "string", "principalId", "string", "pools", "array",
		"nodeGroup", "string", "tableIsDiscovered", "bool"),
		"variables", fields(
			"managed", "[contains(map(parameters('pools'), lambda('pool', empty("+subnet+
				"))), true())]",
			"subnetIds", "[union(filter(map(parameters('pools'), lambda('pool', "+subnet+
				")), lambda('id', not(empty(lambdaVariables('id'))))), createArray())]"),
		"resources", fields(
			"guard", each("guard", subnetRole(), "vnetName", part(8), "subnetName", part(10)),
			"links", each("links", groupRole(), "role", "links"),
			"guardManaged", inNodeGroup("guard", "variables('managed')", "subnets"),
			"managed", inNodeGroup("managed",
				"or(parameters('tableIsDiscovered'), variables('managed'))", "links")))
}
