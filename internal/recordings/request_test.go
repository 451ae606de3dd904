package recordings

import (
	"net/url"
	"slices"
	"strings"
)

// request is what a recorded call is about.
type request struct {
	kind  string   // arm, poll of an operation, or other
	path  string   // decoded
	parts []string // of the path
	query url.Values
	raw   string // the query as sent
	// about is the type of the resource, or a word if it is not a resource. list is set if the call
	// names no single one.
	about, namespace string
	list             bool
	words            []string // what follows the last "providers"
}

// inScope are the types that are measured, by namespace; nil is all of it.
var inScope = map[string][]string{
	"microsoft.network": {
		"virtualnetworks",
		"routetables",
		"networksecuritygroups",
		"publicipaddresses",
		"networkinterfaces",
		"applicationgateways",
		"natgateways",
	},
	"microsoft.containerservice": {"managedclusters"},
	"microsoft.compute":          {"virtualmachinescalesets"},
	"microsoft.managedidentity":  nil,
	"microsoft.authorization": {
		"roleassignments",
		"roledefinitions",
		"locks",
		"policyassignments",
		"policydefinitions",
		"permissions",
		"denyassignments",
	},
	"microsoft.insights":  {"activitylogalerts", "actiongroups", "eventtypes"},
	"microsoft.resources": {"tags", "resourcegroups", "subscriptions"},
}

func parseRequest(address string) request {
	u, err := url.Parse(address)
	if err != nil {
		return request{kind: "other"}
	}
	r := request{kind: "other", path: u.Path, query: url.Values{}, raw: u.RawQuery}
	for k, v := range u.Query() {
		r.query[strings.ToLower(k)] = v
	}
	r.parts = strings.FieldsFunc(u.Path, func(c rune) bool { return c == '/' })
	if u.Hostname() != "management.azure.com" {
		return r
	}
	low := strings.Split(strings.ToLower(strings.Join(r.parts, "/")), "/")
	if isPoll(low) {
		r.kind = "poll"
		return r
	}
	r.kind = "arm"
	last := -1
	for i, word := range low {
		if word == "providers" {
			last = i
		}
	}
	if last < 0 {
		r.about = plainType(low)
		return r
	}
	r.words = r.parts[last+1:]
	n := len(r.words)
	switch {
	case n == 0,
		n == 1,
		n == 2 && slices.Contains([]string{"register", "unregister"}, low[len(low)-1]):
		r.about, r.namespace, r.list = "providers", "providers", n == 0
		return r
	}
	r.namespace = strings.ToLower(r.words[0])
	types := []string{r.namespace}
	for i := 1; i < n; i += 2 {
		types = append(types, strings.ToLower(r.words[i]))
	}
	r.about, r.list = strings.Join(types, "/"), n%2 == 0
	return r
}

func isPoll(low []string) bool {
	for i, word := range low {
		if word == "providers" && i+2 < len(low) && slices.Contains(
			[]string{"locations", "operationresults", "operationstatuses"},
			low[i+2],
		) && slices.ContainsFunc(
			low[i+2:],
			func(s string) bool { return strings.Contains(s, "operation") },
		) {
			return true
		}
	}
	ends := low[max(0, len(low)-2):]
	return len(low) > 2 && low[2] == "operationresults" ||
		slices.Contains(ends, "operationresults") || slices.Contains(ends, "operationstatuses")
}

// plainType is the word for a path without a provider.
func plainType(low []string) string {
	switch {
	case len(low) == 0 || low[0] != "subscriptions":
		return "/" + strings.Join(low[:min(1, len(low))], "")
	case len(low) < 3:
		return "subscriptions"
	case low[2] == "resourcegroups" && len(low) > 4:
		return "resourcegroups/" + strings.Join(low[4:], "/")
	case low[2] == "resourcegroups":
		return "resourcegroups"
	}
	return "subscriptions/" + low[2]
}

// measured reports whether a request counts.
func (r request) measured() bool {
	switch {
	case r.kind != "arm":
		return false
	case r.namespace == "providers":
		return true
	case r.namespace == "":
		return (strings.HasPrefix(r.about, "subscriptions") ||
			strings.HasPrefix(r.about, "resourcegroups") ||
			strings.HasPrefix(r.about, "/tenants")) &&
			!strings.Contains(r.about, "exporttemplate") &&
			!strings.Contains(r.about, "moveresources")
	}
	types, known := inScope[r.namespace]
	if !known {
		return false
	}
	return types == nil || len(r.words) > 1 && slices.Contains(types, strings.ToLower(r.words[1]))
}

// kinds name the rows of the table by the prefix of a type; the first match counts.
var kinds = [][2]string{
	{
		"microsoft.network/virtualnetworks/virtualnetworkpeerings",
		"peerings",
	}, {"microsoft.network/virtualnetworks/subnets", "subnets"},
	{
		"microsoft.network/virtualnetworks",
		"virtual networks",
	}, {"microsoft.network/routetables/routes", "routes"},
	{
		"microsoft.network/routetables",
		"route tables",
	}, {"microsoft.network/networksecuritygroups/", "security rules"},
	{
		"microsoft.network/networksecuritygroups",
		"network security groups",
	}, {"microsoft.network/networkinterfaces/effective", "NIC effective*"},
	{
		"microsoft.network/networkinterfaces",
		"network interfaces",
	}, {"microsoft.network/publicip", "public IP addresses"},
	{
		"microsoft.network/natgateways",
		"NAT gateways",
	}, {"microsoft.network/applicationgateways", "application gateways"},
	{
		"microsoft.containerservice/managedclusters/agentpools",
		"AKS agent pools",
	}, {"microsoft.containerservice/managedclusters/listcluster", "AKS credentials"},
	{
		"microsoft.containerservice/managedclusters/",
		"AKS other children and actions",
	}, {"microsoft.containerservice/managedclusters", "AKS clusters"},
	{
		"microsoft.compute/virtualmachinescalesets/virtualmachines",
		"scale set instances",
	}, {"microsoft.compute/virtualmachinescalesets/", "scale set actions, extensions"},
	{
		"microsoft.compute/virtualmachinescalesets",
		"scale sets",
	}, {"microsoft.managedidentity", "managed identities"},
	{
		"microsoft.authorization/roleassign",
		"role assignments",
	}, {"microsoft.authorization/roledef", "role definitions"},
	{
		"microsoft.authorization/locks",
		"locks",
	}, {"microsoft.authorization/polic", "policies"},
	{"microsoft.insights/activitylogalerts", "activity log alerts"},
	{
		"microsoft.insights/actiongroups/",
		"action group tests",
	}, {"microsoft.insights/actiongroups", "action groups"},
	{
		"microsoft.insights/eventtypes",
		"activity log",
	}, {"microsoft.resources/tags", "tags"}, {"providers", "providers"},
	{"subscriptions", "subscriptions, resources"}, {"resourcegroups", "resource groups"},
}

func (r request) row() string {
	for _, k := range kinds {
		if strings.HasPrefix(r.about, k[0]) {
			return k[1]
		}
	}
	return "other"
}
