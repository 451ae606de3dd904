package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// The widest accepted pod CIDRs. AKS uses /16 and /64 by default. A prefix as wide as a whole
// private range would claim unmanaged routes.
const (
	widestPodCIDR4 = 8
	widestPodCIDR6 = 32
)

// objectName is a valid Kubernetes name (RFC 1123 label), so that a document can become an object
// later.
var objectName = lazy.Regexp(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// CheckName says why a text cannot be the metadata.name of a config.
func CheckName(name string) error {
	if name == "" {
		return errors.New("missing, expected at most 63 of a-z, 0-9 and -")
	}
	if !objectName().MatchString(name) {
		return fmt.Errorf("%s is not a name, expected at most 63 of a-z, 0-9 and -", quoted(name))
	}
	return nil
}

// check checks one config by the rules that need no other config.
func (d *routes) check() error {
	s := &d.spec.Spec
	checks := []func() error{
		func() error {
			return oneOf(d.document, "apiVersion", d.spec.APIVersion, v1alpha1.APIVersion)
		},
		func() error { return oneOf(d.document, "kind", d.spec.Kind, v1alpha1.Kind) },
		func() error {
			if err := CheckName(d.spec.Metadata.Name); err != nil {
				return d.errorf("metadata.name", "%v", err)
			}
			return nil
		},
		d.checkCluster,
		func() error {
			return oneOf(d.document, "spec.source", s.Source, v1alpha1.SourceRouteTable,
				v1alpha1.SourceNodes)
		},
		func() error {
			if s.RouteTableID == "" {
				return nil
			}
			return d.checkID("spec.routeTableID", &s.RouteTableID, arm.TypeRouteTable)
		},
		func() error {
			return oneOf(d.document, "spec.onRemoval", s.OnRemoval, v1alpha1.RemovalKeep,
				v1alpha1.RemovalPrune)
		},
		d.checkPause,
		d.checkPodCIDRs,
		d.checkGuard,
		d.checkOwnTargets,
		d.checkEgress,
	}
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkCluster checks which cluster the document is for. Without one it can guard subnets, and the
// routes of spec.egress.
func (d *routes) checkCluster() error {
	s := &d.spec.Spec
	switch written := d.value("spec.clusterID") != nil; {
	case !d.spec.Clusterless():
		return d.checkID("spec.clusterID", &s.ClusterID, arm.TypeCluster)
	case written, len(s.Guard.Subnets) == 0 && s.Egress.RouteTableID == "":
		return d.errorf("spec.clusterID", "missing, expected the resource ID of a %s, or "+
			"guard.subnets or egress without this field for a network without clusters",
			arm.TypeCluster)
	}
	for _, needs := range []struct {
		field string
		used  bool
		why   string
	}{
		{"source", s.Source == v1alpha1.SourceNodes, "its nodes are read"},
		{"routeTableID", s.RouteTableID != "", "it is the cluster's route table"},
		{"podCIDRs", len(s.PodCIDRs) > 0, "they are its pods' addresses"},
		{"targets", len(s.Targets) > 0, "they get the routes to its pods"},
		{"onRemoval", s.OnRemoval == v1alpha1.RemovalPrune, "it is about the routes to its pods"},
	} {
		if needs.used {
			return d.errorf("spec."+needs.field, "it needs a cluster: %s; expected "+
				"spec.clusterID, too, or only spec.guard.subnets and spec.egress", needs.why)
		}
	}
	return nil
}

// orOf lists alternatives.
func orOf(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// oneOf checks an enum.
func oneOf[T ~string](d *document, field string, value T, allowed ...T) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	names := make([]string, len(allowed))
	for i, a := range allowed {
		names[i] = string(a)
	}
	if value == "" {
		return d.errorf(field, "missing, expected %s", orOf(names))
	}
	return d.errorf(field, "unknown value %s, expected %s", quoted(string(value)), orOf(names))
}

// checkID checks that a field holds the ID of a resource of the given type, and cleans it.
func (d *document) checkID(field string, id *string, resourceTypes ...string) error {
	value := *id
	if value == "" {
		return d.errorf(field, "missing, expected the resource ID of a %s", resourceTypes[0])
	}
	parsed, err := arm.ParseID(value)
	if err != nil {
		return d.errorf(field,
			"%s is not a resource ID: %v; expected /subscriptions/…/providers/%s/…", quoted(value),
			err, resourceTypes[0])
	}
	if !slices.ContainsFunc(resourceTypes, parsed.Is) {
		return d.errorf(field, "%s is the ID of a %s, expected a %s", quoted(value), parsed.Type(),
			strings.Join(resourceTypes, " or "))
	}
	if uuid.Validate(parsed.Subscription()) != nil {
		return d.errorf(field, "%s is not a subscription ID, expected one such as "+
			"11111111-1111-1111-1111-111111111111", quoted(parsed.Subscription()))
	}
	*id = string(parsed)
	return nil
}

func (d *routes) checkPodCIDRs() error {
	var seen []netip.Prefix
	for i, text := range d.spec.Spec.PodCIDRs {
		field := fmt.Sprintf("spec.podCIDRs[%d]", i)
		p, err := PodCIDR(text)
		if err != nil {
			return d.errorf(field, "%v", err)
		}
		for _, other := range seen {
			if p.Overlaps(other) {
				return d.errorf(field, "%s overlaps %s, expected separate prefixes", p, other)
			}
		}
		seen = append(seen, p)
	}
	return nil
}

// PodCIDR parses a pod CIDR. It refuses one that is so wide that it would claim unmanaged routes,
// or too small for one node.
func PodCIDR(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, fmt.Errorf("%s is not a prefix, expected one such as 10.244.0.0/16", quoted(text))
	}
	return p, CheckPodCIDR(p)
}

// CheckPodCIDR says why a prefix cannot be a pod CIDR, or returns nil.
func CheckPodCIDR(p netip.Prefix) error {
	if p != p.Masked() {
		return fmt.Errorf("%s has host bits set, expected %s", p, p.Masked())
	}
	widest := widestPodCIDR4
	if p.Addr().Is6() {
		widest = widestPodCIDR6
	}
	if p.Bits() < widest {
		return fmt.Errorf("%s is too wide for a pod CIDR, expected /%d or longer", p, widest)
	}
	if p.Addr().Is4() && p.Bits() > 24 {
		return fmt.Errorf("%s is smaller than the pod CIDR of one node, expected /24 or shorter", p)
	}
	return nil
}

func (d *routes) checkGuard() error {
	g := d.spec.Spec.Guard
	if err := oneOf(d.document, "spec.guard.mode", g.Mode, v1alpha1.GuardEnforce,
		v1alpha1.GuardObserve, v1alpha1.GuardOff); err != nil {
		return err
	}
	if err := oneOf(d.document, "spec.guard.onOtherTable", g.OnOtherTable,
		v1alpha1.OtherTableReport, v1alpha1.OtherTableReplace); err != nil {
		return err
	}
	if err := oneOf(d.document, "spec.guard.securityGroups", g.SecurityGroups,
		v1alpha1.GuardEnforce, v1alpha1.GuardObserve); err != nil {
		return err
	}
	for i := range g.Subnets {
		s := &g.Subnets[i]
		field := fmt.Sprintf("spec.guard.subnets[%d]", i)
		if err := d.checkID(field+".subnetID", &s.SubnetID, arm.TypeSubnet); err != nil {
			return err
		}
		if err := d.checkProperties(field, s); err != nil {
			return err
		}
		for _, other := range g.Subnets[:i] {
			if equalIDs(other.SubnetID, s.SubnetID) {
				return d.errorf(field+".subnetID", "listed twice, expected each subnet once")
			}
		}
	}
	return nil
}

// field is a property of a guarded subnet in the config.
type field struct {
	value *string
	of    inventory.Property
}

func fieldsOf(s *v1alpha1.GuardedSubnet) []field {
	return []field{{&s.RouteTableID, inventory.PropertyTable},
		{&s.NATGatewayID, inventory.PropertyNAT},
		{&s.NetworkSecurityGroupID, inventory.PropertyGroup}}
}

// impossible lists, for each property, the reserved names of the subnets that cannot have it. The
// sources are nat-overview for NAT gateways, Azure/caf-enterprise-scale#38 and route-server-faq for
// groups, and for tables Enterprise-Scale's policy Deny-Subnet-Without-Udr, which leaves out
// Bastion, and Azure-Landing-Zones#3972.
var impossible = map[inventory.Property][]string{
	inventory.PropertyNAT: {"GatewaySubnet"},
	inventory.PropertyGroup: {"GatewaySubnet", "AzureFirewallSubnet",
		"AzureFirewallManagementSubnet", "RouteServerSubnet"},
	inventory.PropertyTable: {"AzureBastionSubnet", "RouteServerSubnet"},
}

// checkProperties checks what a guarded subnet must have.
func (d *routes) checkProperties(at string, s *v1alpha1.GuardedSubnet) error {
	some := false
	for _, f := range fieldsOf(s) {
		if *f.value == "" {
			continue
		}
		some = true
		if err := d.checkID(at+"."+f.of.Field(), f.value, f.of.Type()); err != nil {
			return err
		}
		if d.spec.Clusterless() && inventory.IsManagedTable(arm.ID(*f.value)) {
			return d.errorf(at+"."+f.of.Field(), "%q is the name of a table that AKS made for a "+
				"cluster, expected it in the %s of the cluster, because it ends with kubenet",
				arm.ID(*f.value).Name(), d.kind())
		}
		subnet := arm.ID(s.SubnetID).Name()
		for _, name := range impossible[f.of] {
			if strings.EqualFold(subnet, name) {
				return d.errorf(at+"."+f.of.Field(), "Azure refuses a %s on a subnet called %s, "+
					"expected none", f.of.Name(), name)
			}
		}
	}
	if !some {
		var fields []string
		for _, p := range inventory.Properties {
			fields = append(fields, p.Field())
		}
		return d.errorf(at, "nothing to guard, expected %s", orOf(fields))
	}
	return nil
}

func (d *routes) checkPause() error {
	p := d.spec.Spec.Pause
	if p == nil {
		return nil
	}
	if _, err := time.Parse(time.RFC3339, p.Until); err != nil {
		return d.errorf("spec.pause.until", "%s is not a time, expected one such as "+
			"2030-01-31T18:00:00Z", quoted(p.Until))
	}
	const longest, longestName = 300, 100
	if strings.TrimSpace(p.Reason) == "" || len(p.Reason) > longest {
		return d.errorf("spec.pause.reason", "expected 1 to %d bytes that others understand",
			longest)
	}
	if len(p.By) > longestName {
		return d.errorf("spec.pause.by", "expected at most %d bytes", longestName)
	}
	return nil
}

func (d *routes) checkOwnTargets() error {
	for i := range d.spec.Spec.Targets {
		t := &d.spec.Spec.Targets[i]
		field := fmt.Sprintf("spec.targets[%d]", i)
		if err := d.checkID(field+".routeTableID", &t.RouteTableID,
			arm.TypeRouteTable); err != nil {
			return err
		}
		if err := oneOf(d.document, field+".policy", t.Policy, v1alpha1.PolicySync,
			v1alpha1.PolicyUpsertOnly, v1alpha1.PolicyObserve); err != nil {
			return err
		}
		if t.MaxRoutes < 1 || t.MaxRoutes > 1000 {
			return d.errorf(field+".maxRoutes", "%d is out of range, expected 1 to 1000",
				t.MaxRoutes)
		}
		for _, other := range d.spec.Spec.Targets[:i] {
			if equalIDs(other.RouteTableID, t.RouteTableID) {
				return d.errorf(field+".routeTableID", "listed twice, expected each target once")
			}
		}
	}
	return nil
}

// checkAgainst checks a document against the ones before it.
func (d *routes) checkAgainst(before []*routes) error {
	for _, other := range before {
		if other.spec.Metadata.Name == d.spec.Metadata.Name {
			return d.errorf("metadata.name", "%q is taken by %s, expected a unique name",
				d.spec.Metadata.Name, other.where("metadata.name"))
		}
		if equalIDs(other.spec.Spec.ClusterID, d.spec.Spec.ClusterID) {
			return d.errorf("spec.clusterID", "the cluster is already configured %s, expected "+
				"one %s for each cluster", other.at("spec.clusterID"), d.kind())
		}
		for i, s := range d.spec.Spec.Guard.Subnets {
			for j, o := range other.spec.Spec.Guard.Subnets {
				if !equalIDs(s.SubnetID, o.SubnetID) {
					continue
				}
				theirs := fieldsOf(&o)
				for n, f := range fieldsOf(&s) {
					if *f.value != "" && *theirs[n].value != "" &&
						!equalIDs(*f.value, *theirs[n].value) {
						return d.errorf(fmt.Sprintf("spec.guard.subnets[%d].%s", i, f.of.Field()),
							"%s names another %s for the same subnet, expected the same one",
							other.where(fmt.Sprintf("spec.guard.subnets[%d].%s", j, f.of.Field())),
							f.of.Noun())
					}
				}
			}
		}
	}
	return nil
}

// checkTargets refuses a target that is a cluster's route table: its cloud provider owns it, and a
// single write by another program makes it fail for a while (cloud-provider-azure#11003).
func (d *routes) checkTargets(docs []*routes) error {
	if err := d.checkEgressTable(docs); err != nil {
		return err
	}
	for i, t := range d.spec.Spec.Targets {
		field := fmt.Sprintf("spec.targets[%d].routeTableID", i)
		for _, other := range docs {
			if equalIDs(t.RouteTableID, other.spec.Spec.RouteTableID) {
				return d.errorf(field, "it is the route table of the cluster %q (%s), "+
					"expected another one: routekeeper never writes a cluster's route table",
					other.spec.Metadata.Name, other.where("spec.routeTableID"))
			}
		}
		if inventory.IsManagedTable(arm.ID(t.RouteTableID)) {
			return d.errorf(field, "%q is the name of a table that AKS made for a cluster, "+
				"expected another table: routekeeper never writes a cluster's route table",
				arm.ID(t.RouteTableID).Name())
		}
	}
	return nil
}

// quoted quotes a value from the file, shortened if necessary.
func quoted(value string) string {
	const longest = 300
	if runes := []rune(value); len(runes) > longest {
		return strconv.Quote(string(runes[:longest])) + "…"
	}
	return strconv.Quote(value)
}

// kind returns what a document is called.
func (d *document) kind() string {
	if d.object {
		return "object"
	}
	return "document"
}

// at says where a field is.
func (d *document) at(field string) string {
	if d.object {
		return "by " + d.where(field)
	}
	return "at " + d.where(field)
}

// where returns file:line of a field, or the name of an object.
func (d *document) where(field string) string {
	if d.object {
		return d.file
	}
	e := d.errorf(field, "")
	return fmt.Sprintf("%s:%d", e.File, e.Line)
}

// equalIDs compares two IDs as written; "" equals nothing.
func equalIDs(a, b string) bool { return a != "" && arm.ID(a).Equal(arm.ID(b)) }
