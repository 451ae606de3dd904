package generate

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
)

// field is an argument of azurerm, and its path in the body that the provider writes.
type field struct{ argument, path string }

// azurerm is the table of azurerm's arguments by resource, with their paths in Azure. Name,
// resource group and parent are in the ID. translate handles arguments that need more than a path.
var azurerm = map[string][]field{
	"azurerm_virtual_network": {{"location", "location"}, {"tags", "tags"},
		{"address_space", "properties.addressSpace.addressPrefixes"}},
	"azurerm_route_table":            {{"location", "location"}, {"tags", "tags"}},
	"azurerm_user_assigned_identity": {{"location", "location"}, {"tags", "tags"}},
	"azurerm_route": {
		{"address_prefix", "properties.addressPrefix"}, {"next_hop_type", "properties.nextHopType"},
		{"next_hop_in_ip_address", "properties.nextHopIpAddress"},
	},
	"azurerm_role_definition": {
		{"name", "properties.roleName"}, {"description", "properties.description"},
		{"assignable_scopes", "properties.assignableScopes"},
	},
	"azurerm_role_assignment": {
		{"role_definition_id", "properties.roleDefinitionId"}, {"principal_id",
			"properties.principalId"},
		{"principal_type", "properties.principalType"},
	},
	"azurerm_public_ip": {
		{"location", "location"}, {"tags", "tags"}, {"sku", "sku.name"}, {"sku_tier", "sku.tier"},
		{"allocation_method", "properties.publicIPAllocationMethod"},
	},
	"azurerm_application_gateway": {{"location", "location"}, {"tags", "tags"}},
	"azurerm_kubernetes_cluster": {
		{"location", "location"}, {"tags", "tags"}, {"dns_prefix", "properties.dnsPrefix"},
		{"kubernetes_version", "properties.kubernetesVersion"},
		{"private_cluster_enabled", "properties.apiServerAccessProfile.enablePrivateCluster"},
		{"oidc_issuer_enabled", "properties.oidcIssuerProfile.enabled"},
		{"workload_identity_enabled", "properties.securityProfile.workloadIdentity.enabled"},
	},
	"azapi_resource": {{"location", "location"}, {"tags", "tags"}},
	"azurerm_federated_identity_credential": {
		{"issuer", "properties.issuer"}, {"subject", "properties.subject"}, {"audience",
			"properties.audiences"},
	},
	"azurerm_container_app_environment": {{"location", "location"}, {"tags", "tags"}},
	"azurerm_container_app": {
		{"tags", "tags"}, {"container_app_environment_id", "properties.environmentId"},
		{"workload_profile_name", "properties.workloadProfileName"},
		{"revision_mode", "properties.configuration.activeRevisionsMode"},
	},
}

// Arguments of blocks.
var (
	networkProfileFields = []field{
		{"network_plugin", "networkPlugin"}, {"network_plugin_mode", "networkPluginMode"},
		{"network_policy", "networkPolicy"}, {"network_data_plane", "networkDataplane"},
		{"outbound_type", "outboundType"}, {"pod_cidr", "podCidr"}, {"service_cidr", "serviceCidr"},
		{"dns_service_ip", "dnsServiceIP"},
	}
	poolFields = []field{
		{"name", "name"}, {"vm_size", "vmSize"}, {"node_count", "count"}, {"max_pods", "maxPods"},
		{"vnet_subnet_id", "vnetSubnetID"}, {"pod_subnet_id", "podSubnetID"}, {"mode", "mode"},
		{"auto_scaling_enabled", "enableAutoScaling"}, {"min_count", "minCount"}, {"max_count",
			"maxCount"},
		{"zones", "availabilityZones"},
	}
)

// place moves arguments from their paths in the code to their paths in Azure.
func place(body object, a terraformArguments, fields []field) object {
	for _, f := range fields {
		if v := a.take(f.argument); v != nil {
			put(body, f.path, v)
		}
	}
	return body
}

func put(body object, path string, v any) {
	at := body
	for {
		head, rest, more := cut(path)
		if !more {
			at[head] = v
			return
		}
		inner, _ := at[head].(object)
		if inner == nil {
			inner = object{}
			at[head] = inner
		}
		at, path = inner, rest
	}
}

func cut(path string) (head, rest string, more bool) {
	for i := range path {
		if path[i] == '.' {
			return path[:i], path[i+1:], true
		}
	}
	return path, "", false
}

// builtIn are the GUIDs of built-in roles that azurerm looks up by name.
var builtIn = map[string]string{
	"Contributor":         "b24988ac-6180-42a0-ab88-20f7382dd24c",
	"Reader":              "acdd72a7-3385-48ef-bd42-f606fba81ae7",
	"Network Contributor": "4d97b98b-1d4f-4787-a291-c67834d212e7",
}

// azure are the bodies that an apply writes. An association is part of its subnet, a node pool part
// of its cluster.
func (r *terraformReader) azure() bodies {
	out := bodies{}
	subnets, pools := map[arm.ID]object{}, map[arm.ID][]any{}
	for _, address := range r.order {
		res := r.resources[address]
		switch res.kind {
		case "azurerm_subnet_route_table_association":
			subnets[res.id] = object{"routeTable": object{"id": res.take("route_table_id")}}
			res.take("subnet_id")
		case "azurerm_kubernetes_cluster_node_pool":
			id := arm.ID(fmt.Sprint(res.take("kubernetes_cluster_id")))
			pools[id] = append(pools[id], r.pool(object{}, res.terraformArguments))
		default:
			continue
		}
		r.nothingLeft(address)
	}
	for id, properties := range subnets {
		declared := func(res *terraformResource) bool {
			return res.kind == "azurerm_subnet" && res.id == id
		}
		if !slices.ContainsFunc(slices.Collect(maps.Values(r.resources)), declared) {
			out.add(r.t, id, object{"properties": properties}) // it exists
		}
	}
	for _, address := range r.order {
		res := r.resources[address]
		if res.id == "" || res.kind == "azurerm_subnet_route_table_association" ||
			res.kind == "azurerm_kubernetes_cluster_node_pool" {
			continue
		}
		body := place(object{}, res.terraformArguments, azurerm[res.kind])
		for _, name := range []string{"name", "resource_group_name", "virtual_network_name",
			"route_table_name",
			"role_definition_id", "scope", "parent_id", "type", "user_assigned_identity_id"} {
			res.take(name) // in the ID
		}
		r.translate(res, body)
		if res.kind == "azurerm_subnet" {
			for name, v := range subnets[res.id] {
				put(body, "properties."+name, v)
			}
		}
		if more := pools[res.id]; len(more) > 0 {
			properties := body["properties"].(object)
			properties["agentPoolProfiles"] = append(properties["agentPoolProfiles"].([]any),
				more...)
		}
		r.nothingLeft(address)
		out.add(r.t, res.id, body)
	}
	return out
}

// pool is a node pool. Its upgrade settings are Azure's default, which the code must name: without
// them, each plan removes what Azure shows (azurerm#24020).
func (r *terraformReader) pool(body object, a terraformArguments) object {
	r.t.Helper()
	if surge := a.block("upgrade_settings").take("max_surge"); surge != "10%" {
		r.t.Errorf("a pool has max_surge %v", surge)
	}
	return place(body, a, poolFields)
}

func (r *terraformReader) nothingLeft(address string) {
	r.t.Helper()
	res := r.resources[address]
	for _, a := range append(res.nested, res.terraformArguments) {
		if left := a.left(); len(left) > 0 {
			r.t.Errorf("%s: the table of azurerm's arguments does not have %q", address, left)
		}
	}
}

// translate adds arguments to a body that need more than a path.
func (r *terraformReader) translate(res *terraformResource, body object) {
	switch res.kind {
	case "azurerm_resource_group":
		place(body, res.terraformArguments, []field{{"location", "location"}, {"tags", "tags"}})
	case "azurerm_subnet":
		put(body, "properties.addressPrefix", res.take("address_prefixes").([]any)[0])
	case "azurerm_role_definition":
		put(body, "properties.type", "CustomRole")
		put(body, "properties.permissions",
			[]any{object{"actions": res.block("permissions").take("actions")}})
	case "azurerm_role_assignment":
		if name := res.take("role_definition_name"); name != nil {
			put(body, "properties.roleDefinitionId", "/subscriptions/"+r.cluster.Subscription+
				"/providers/"+
				arm.TypeRoleDefinition+"/"+builtIn[name.(string)])
		}
	case "azurerm_application_gateway":
		gateway(res, body)
	case "azurerm_kubernetes_cluster":
		identity(res, body)
		pool := r.pool(object{"mode": "System"}, res.block("default_node_pool"))
		put(body, "properties.agentPoolProfiles", []any{pool})
		put(body, "properties.networkProfile",
			place(object{}, res.block("network_profile"), networkProfileFields))
		if g := res.block("ingress_application_gateway").take("gateway_id"); g != nil {
			put(body, "properties.addonProfiles.ingressApplicationGateway", object{
				"enabled": true, "config": object{"applicationGatewayId": g}})
		}
		if mode := res.block("node_provisioning_profile").take("mode"); mode != nil &&
			mode != "Manual" {
			// Manual is Azure's default
			r.t.Errorf("the cluster's nodes are provisioned %v", mode)
		}
	case "azapi_resource":
		identity(res, body)
		body["properties"] = res.take("body").(object)["properties"]
		res.take("response_export_values")
	case "azurerm_container_app_environment":
		p := res.block("workload_profile")
		p.take("minimum_count") // the provider requires them, and a Consumption profile has none
		p.take("maximum_count")
		put(body, "properties.workloadProfiles", []any{place(object{}, p,
			[]field{{"name", "name"}, {"workload_profile_type", "workloadProfileType"}})})
	case "azurerm_container_app":
		body["location"] = r.cluster.Location // the environment's
		identity(res, body)
		containerApp(res, body)
	}
}

func identity(res *terraformResource, body object) {
	b := res.block("identity")
	ids := object{}
	for _, id := range b.take("identity_ids").([]any) {
		ids[id.(string)] = object{}
	}
	body["identity"] = object{"type": b.take("type"), "userAssignedIdentities": ids}
}

// gateway translates the blocks of an Application Gateway, in which parts refer to each other by
// name.
func gateway(res *terraformResource, body object) {
	part := func(kind string, name any) object {
		return object{"id": fmt.Sprintf("%s/%s/%s", res.id, kind, name)}
	}
	named := func(path string, block string, fields []field,
		more func(terraformArguments, object)) {
		list := []any{}
		for _, b := range res.all(block) {
			name := b.take("name")
			properties := place(object{}, b, fields)
			if more != nil {
				more(b, properties)
			}
			list = append(list, object{"name": name, "properties": properties})
		}
		put(body, "properties."+path, list)
	}
	put(body, "properties.sku",
		place(object{}, res.block("sku"), []field{{"name", "name"}, {"tier", "tier"}}))
	put(body, "properties.autoscaleConfiguration",
		place(object{}, res.block("autoscale_configuration"),
			[]field{{"min_capacity", "minCapacity"}, {"max_capacity", "maxCapacity"}}))
	named("gatewayIPConfigurations", "gateway_ip_configuration",
		[]field{{"subnet_id", "subnet.id"}}, nil)
	named("frontendIPConfigurations", "frontend_ip_configuration",
		[]field{{"public_ip_address_id", "publicIPAddress.id"}}, nil)
	named("frontendPorts", "frontend_port", []field{{"port", "port"}}, nil)
	named("backendAddressPools", "backend_address_pool", nil,
		func(_ terraformArguments, p object) {})
	named("backendHttpSettingsCollection", "backend_http_settings",
		[]field{{"port", "port"}, {"protocol", "protocol"}, {"request_timeout", "requestTimeout"}},
		func(b terraformArguments, _ object) {
			if v := b.take("cookie_based_affinity"); v != "Disabled" { // which is Azure's default
				res.t.Errorf("cookie_based_affinity is %v", v)
			}
		})
	named("httpListeners", "http_listener", []field{{"protocol", "protocol"}},
		func(b terraformArguments, p object) {
			p["frontendIPConfiguration"] = part("frontendIPConfigurations",
				b.take("frontend_ip_configuration_name"))
			p["frontendPort"] = part("frontendPorts", b.take("frontend_port_name"))
		})
	named("requestRoutingRules", "request_routing_rule", []field{{"rule_type", "ruleType"},
		{"priority", "priority"}}, func(b terraformArguments, p object) {
		p["httpListener"] = part("httpListeners", b.take("http_listener_name"))
		p["backendAddressPool"] = part("backendAddressPools", b.take("backend_address_pool_name"))
		p["backendHttpSettings"] = part("backendHttpSettingsCollection",
			b.take("backend_http_settings_name"))
	})
}

// containerApp translates the blocks of a container app.
func containerApp(res *terraformResource, body object) {
	secrets := []any{}
	for _, b := range res.all("secret") {
		secrets = append(secrets, place(object{}, b, []field{{"name", "name"}, {"value", "value"}}))
	}
	put(body, "properties.configuration.secrets", secrets)
	template := res.block("template")
	c := template.block("container")
	container := place(object{}, c, []field{{"name", "name"}, {"image", "image"}, {"args", "args"},
		{"cpu", "resources.cpu"}, {"memory", "resources.memory"}})
	container["env"] = []any{
		place(object{}, c.block("env"), []field{{"name", "name"}, {"value", "value"}})}
	container["volumeMounts"] = []any{place(object{}, c.block("volume_mounts"),
		[]field{{"name", "volumeName"}, {"path", "mountPath"}})}
	var probes []any
	for _, kind := range []field{{"liveness_probe", "Liveness"}, {"readiness_probe", "Readiness"}} {
		b := c.block(kind.argument)
		if b.take("transport") != "HTTP" {
			res.t.Errorf("the %s is not over HTTP", kind.argument)
		}
		probes = append(probes, place(object{"type": kind.path}, b,
			[]field{{"port", "httpGet.port"},
				{"path", "httpGet.path"}, {"interval_seconds", "periodSeconds"},
				{"failure_count_threshold", "failureThreshold"}}))
	}
	container["probes"] = probes
	put(body, "properties.template", object{
		"containers": []any{container},
		"scale": place(object{}, template,
			[]field{{"min_replicas", "minReplicas"}, {"max_replicas", "maxReplicas"}}),
		"volumes": []any{place(object{}, template.block("volume"),
			[]field{{"name", "name"}, {"storage_type", "storageType"}})},
	})
}

// TestTerraformSaysWhatCreateMakes compares the bodies of create with the bodies that an
// apply would write.
func TestTerraformSaysWhatCreateMakes(t *testing.T) {
	for _, v := range variants(t) {
		for _, provider := range []int{4, 5} {
			files, err := Blueprint{Cluster: v.cluster, Provider: provider}.Terraform()
			if err != nil {
				t.Fatal(err)
			}
			r := readTerraform(t, v.cluster, files)
			want := created(t, v.cluster)
			group := v.cluster.Steps()[0] // here the code creates it
			want.add(t, group.ID, group.Body(nil))
			differ(t, fmt.Sprintf("%s as Terraform for azurerm %d", v.name, provider), r.azure(),
				want)
			r.inOrder(v)
		}
	}
}

// inOrder checks that the cluster comes after everything that create makes before it.
func (r *terraformReader) inOrder(v variant) {
	byID := map[string][]string{}
	for address, res := range r.resources {
		byID[res.id.Key()] = append(byID[res.id.Key()], address)
	}
	var reaches func(from string, seen map[string]bool)
	reaches = func(from string, seen map[string]bool) {
		if !seen[from] && r.resources[from] != nil {
			seen[from] = true
			for _, next := range r.resources[from].after {
				reaches(next, seen)
			}
		}
	}
	seen := map[string]bool{}
	for _, address := range byID[v.cluster.ClusterID().Key()] {
		reaches(address, seen)
	}
	for _, s := range v.cluster.Steps() {
		if s.ID == v.cluster.ClusterID() {
			break
		}
		for _, address := range byID[s.ID.Key()] {
			if !seen[address] {
				r.t.Errorf("%s: the cluster does not come after %s", v.name, address)
			}
		}
	}
}
