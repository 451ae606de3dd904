package arm

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The ARM resource types this program handles, in the case Azure writes them.
const (
	TypeCluster     = "Microsoft.ContainerService/managedClusters"
	TypeRouteTable  = "Microsoft.Network/routeTables"
	TypeVNet        = "Microsoft.Network/virtualNetworks"
	TypeSubnet      = "Microsoft.Network/virtualNetworks/subnets"
	TypeScaleSet    = "Microsoft.Compute/virtualMachineScaleSets"
	TypeGateway     = "Microsoft.Network/applicationGateways"
	TypeActivityLog = "Microsoft.Insights/eventtypes"
	TypeFirewall    = "Microsoft.Network/azureFirewalls"

	TypeLoadBalancer   = "Microsoft.Network/loadBalancers"
	TypeFrontend       = TypeLoadBalancer + "/frontendIPConfigurations"
	TypeFirewallPolicy = "Microsoft.Network/firewallPolicies"
	TypeRuleGroup      = TypeFirewallPolicy + "/ruleCollectionGroups"
	TypeIPGroup        = "Microsoft.Network/ipGroups"
	TypeExtension      = "Microsoft.KubernetesConfiguration/extensions"

	TypePublicIP       = "Microsoft.Network/publicIPAddresses"
	TypeIdentity       = "Microsoft.ManagedIdentity/userAssignedIdentities"
	TypeRoute          = TypeRouteTable + "/routes"
	TypeRoleDefinition = "Microsoft.Authorization/roleDefinitions"
	TypeRoleAssignment = "Microsoft.Authorization/roleAssignments"

	TypeSecurityGroup     = "Microsoft.Network/networkSecurityGroups"
	TypeNATGateway        = "Microsoft.Network/natGateways"
	TypeInterface         = "Microsoft.Network/networkInterfaces"
	TypeScaleSetInterface = TypeScaleSet + "/virtualMachines/networkInterfaces"
	TypeVM                = "Microsoft.Compute/virtualMachines"
	TypeLock              = "Microsoft.Authorization/locks"

	TypeAlertRule   = "Microsoft.Insights/activityLogAlerts"
	TypeActionGroup = "Microsoft.Insights/actionGroups"

	TypeSubscription  = "Microsoft.Resources/subscriptions"
	TypeResourceGroup = "Microsoft.Resources/resourceGroups"
)

// ID is the ARM resource ID of a subscription, resource group or resource, in its original
// spelling. Azure itself spells an ID in several ways (resourcegroups, microsoft.network), so
// compare IDs with Equal and use Key for map keys, never ==. The zero value is no ID.
type ID string

// ParseID parses an ARM resource ID. Like ARM, it removes a trailing slash and doubled slashes. The
// error fits after "is not a resource ID: ".
func ParseID(s string) (ID, error) {
	if s == "" {
		return "", fmt.Errorf("it is empty")
	}
	if s[0] != '/' {
		return "", fmt.Errorf("it does not start with /subscriptions/")
	}
	segments := strings.FieldsFunc(s, func(r rune) bool { return r == '/' })
	for _, segment := range segments {
		if err := checkSegment(segment); err != nil {
			return "", err
		}
	}
	if len(segments) < 2 || !strings.EqualFold(segments[0], "subscriptions") {
		return "", fmt.Errorf("it does not start with /subscriptions/<id>")
	}
	rest := segments[2:]
	if len(rest) > 0 && strings.EqualFold(rest[0], "resourceGroups") {
		if len(rest) < 2 {
			return "", fmt.Errorf("the resource group has no name")
		}
		rest = rest[2:]
	}
	// (providers / namespace / (type / name)+)*, the second and further ones for extension
	// resources.
	for len(rest) > 0 {
		if !strings.EqualFold(rest[0], "providers") {
			return "", fmt.Errorf("expected providers, found %q", rest[0])
		}
		if len(rest) < 4 || len(rest)%2 != 0 || strings.EqualFold(rest[2], "providers") {
			return "", fmt.Errorf("a resource type or name is missing after %q",
				strings.Join(rest, "/"))
		}
		for rest = rest[2:]; len(rest) > 0 &&
			!strings.EqualFold(rest[0], "providers"); rest = rest[2:] {
		}
	}
	if !strings.HasSuffix(s, "/") && !strings.Contains(s, "//") {
		return ID(s), nil
	}
	return ID("/" + strings.Join(segments, "/")), nil
}

// checkSegment refuses characters that could turn an ID into another URL: an ID from a file or a
// response becomes a request path.
func checkSegment(segment string) error {
	if segment == "." || segment == ".." || strings.TrimSpace(segment) != segment {
		return fmt.Errorf("%q cannot be part of it", segment)
	}
	for _, r := range segment {
		if unicode.IsControl(r) || r == unicode.ReplacementChar ||
			strings.ContainsRune(`?#%\<>"`, r) {
			return fmt.Errorf("%q cannot be part of it", r)
		}
	}
	return nil
}

// Key returns a form of the ID that is the same for all spellings of one resource.
func (id ID) Key() string {
	var place [256]byte
	key := id.appendKey(place[:0])
	if string(key) == string(id) {
		return string(id)
	}
	return string(key)
}

// Lookup returns a map's value for an ID's Key. It computes the key in place, because every check
// looks up every ID several times.
func Lookup[T any](in map[string]T, id ID) (found T, there bool) {
	var place [256]byte
	found, there = in[string(id.appendKey(place[:0]))]
	return found, there
}

// appendKey appends the ID's Key. For ASCII it does in one pass what strings.ToLower does in two.
func (id ID) appendKey(to []byte) []byte {
	to = append(to, id...)
	for i, c := range to {
		switch {
		case 'A' <= c && c <= 'Z':
			to[i] = c + 'a' - 'A'
		case c >= utf8.RuneSelf:
			return append(to[:0], strings.ToLower(string(id))...)
		}
	}
	return to
}

// Equal reports whether two IDs name the same resource: ARM compares without case.
func (id ID) Equal(other ID) bool { return strings.EqualFold(string(id), string(other)) }

// String returns the ID as it was written.
func (id ID) String() string { return string(id) }

// segments returns the parts between the slashes, without the empty one at the start.
func (id ID) Segments() []string {
	if id == "" {
		return nil
	}
	return strings.Split(string(id)[1:], "/")
}

// after returns the segment after the first one that equals word, ignoring case, or "".
func (id ID) after(word string) string {
	rest := strings.TrimPrefix(string(id), "/")
	for rest != "" {
		name, value, found := strings.Cut(rest, "/")
		if !found || strings.EqualFold(name, "providers") {
			return ""
		}
		value, rest, _ = strings.Cut(value, "/")
		if strings.EqualFold(name, word) {
			return value
		}
	}
	return ""
}

// Subscription returns the subscription's GUID, or "".
func (id ID) Subscription() string { return id.after("subscriptions") }

// SubscriptionID returns the ID of the subscription that the resource is in.
func (id ID) SubscriptionID() ID { return SubscriptionID(id.Subscription()) }

// ResourceGroup returns the resource group's name, or "" for a subscription's own ID.
func (id ID) ResourceGroup() string { return id.after("resourceGroups") }

// Group returns the ID of the resource group the resource is in, or "".
func (id ID) Group() ID {
	if id.ResourceGroup() == "" {
		return ""
	}
	return GroupID(id.Subscription(), id.ResourceGroup())
}

// Name returns the last segment: the resource's own name.
func (id ID) Name() string {
	return string(id)[strings.LastIndexByte(string(id), '/')+1:]
}

// Type returns the resource type as written in the ID, such as
// Microsoft.Network/virtualNetworks/subnets. For an extension resource (a lock on a table) it is
// the type of the extension.
func (id ID) Type() string {
	var place [16]string
	return strings.Join(id.typeParts(place[:0]), "/")
}

// Is reports whether the ID names a resource of the given type.
func (id ID) Is(resourceType string) bool {
	var place [16]string
	for _, part := range id.typeParts(place[:0]) {
		var wanted string
		if wanted, resourceType, _ = strings.Cut(resourceType, "/"); !strings.EqualFold(part,
			wanted) {
			return false
		}
	}
	return resourceType == ""
}

// typeParts appends the namespace and the types within it.
func (id ID) typeParts(to []string) []string {
	segments := to
	for rest := strings.TrimPrefix(string(id), "/"); rest != ""; {
		var segment string
		segment, rest, _ = strings.Cut(rest, "/")
		segments = append(segments, segment)
	}
	last := -1
	for i := 0; i+1 < len(segments); i += 2 {
		if strings.EqualFold(segments[i], "providers") {
			last = i
		}
	}
	switch {
	case last < 0 && id.ResourceGroup() != "":
		return append(to, "Microsoft.Resources", "resourceGroups")
	case last < 0:
		return append(to, "Microsoft.Resources", "subscriptions")
	}
	// the append overwrites only segments that were read
	parts := append(to, segments[last+1])
	for i := last + 2; i < len(segments); i += 2 {
		parts = append(parts, segments[i])
	}
	return parts
}

// Parent returns the ID of the resource that contains this one: the VNet of a subnet, the resource
// group of a top-level resource, the subscription of a resource group, or "".
func (id ID) Parent() ID {
	segments := id.Segments()
	n := len(segments) - 2
	if n <= 0 {
		return ""
	}
	if n >= 2 && strings.EqualFold(segments[n-2], "providers") {
		n -= 2
	}
	return ID("/" + strings.Join(segments[:n], "/"))
}

// Child returns the ID of a child resource.
func (id ID) Child(childType, name string) ID { return id + ID("/"+childType+"/"+name) }

// Short returns the shortest name by which people recognize the resource: vnet/subnet for a subnet,
// the name for all others.
func (id ID) Short() string {
	if id.Is(TypeSubnet) {
		return id.Parent().Name() + "/" + id.Name()
	}
	return id.Name()
}

// SubscriptionID returns the ID of a subscription.
func SubscriptionID(subscription string) ID { return ID("/subscriptions/" + subscription) }

// GroupID makes the ID of a resource group.
func GroupID(subscription, group string) ID {
	return ID("/subscriptions/" + subscription + "/resourceGroups/" + group)
}

// ResourceID makes the ID of a top-level resource.
func ResourceID(subscription, group, resourceType, name string) ID {
	return GroupID(subscription, group) + ID("/providers/"+resourceType+"/"+name)
}

// Link returns the value of a property that refers to a resource.
func Link(id ID) map[string]any { return map[string]any{"id": string(id)} }
