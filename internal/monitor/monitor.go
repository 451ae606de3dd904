// Package monitor says what Azure Monitor has to watch so that a keeper receives change events. For
// a config, it names the operations on resources, and in each subscription an activity log alert
// rule with its action group. It compares rules and groups with the existing ones.
//
// It is pure: documents in, changes out. It must not decide what an event leads to; the keeper
// does, and it checks instead of trusting the event.
package monitor

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// Operations returns the relevant operations, as the activity log names them. A scale-out shows as
// writes to the cluster's table, where the cloud provider adds the new routes. A scale set is
// written before there are routes, and join actions change nothing.
func Operations() []string {
	return []string{
		"Microsoft.ContainerService/managedClusters/agentPools/delete",
		"Microsoft.ContainerService/managedClusters/agentPools/write",
		"Microsoft.ContainerService/managedClusters/delete",
		"Microsoft.ContainerService/managedClusters/write",
		"Microsoft.Network/routeTables/delete",
		"Microsoft.Network/routeTables/routes/delete",
		"Microsoft.Network/routeTables/routes/write",
		"Microsoft.Network/routeTables/write",
		"Microsoft.Network/virtualNetworks/subnets/delete",
		"Microsoft.Network/virtualNetworks/subnets/write",
		"Microsoft.Network/virtualNetworks/write",
	}
}

const (
	// prefix starts the names of all created resources.
	prefix = "routekeeper"
	// ShortName is the action group's short name, which has at most 12 characters.
	ShortName = "routekeeper"
	// ReceiverName is the name of the webhook in the action group.
	ReceiverName = "routekeeper"
	// Description is the description of the alert rule.
	Description = "Notifies routekeeper when a route table, network or cluster that it manages " +
		"changes."
)

// Tags that identify created resources. The second one's value is the resource's name, so that a
// copy with another name, or another person's rule with this name, does not match.
const (
	tagBy           = "managed-by"
	tagInstallation = "routekeeper-installation"
)

// Installation is what one keeper has in Azure Monitor: an alert rule and an action group per
// subscription.
type Installation struct {
	name    string
	groups  map[string]arm.ID // by the subscription
	webhook Webhook
}

var nameShape = lazy.Regexp(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)

// New describes an installation. name distinguishes several keepers, and may be empty. groups has
// one resource group per subscription.
func New(name string, groups []arm.ID, webhook Webhook) (Installation, error) {
	i := Installation{prefix, map[string]arm.ID{}, webhook}
	if name != "" {
		if !nameShape().MatchString(name) {
			return i, fmt.Errorf("%q is not a valid name, expected up to 40 lower-case letters, "+
				"digits and hyphens", name)
		}
		i.name += "-" + name
	}
	for _, g := range groups {
		key := strings.ToLower(g.Subscription())
		if other, twice := i.groups[key]; twice && !other.Equal(g) {
			return i, fmt.Errorf("%s and %s are in the same subscription, expected one resource "+
				"group per subscription", other, g)
		}
		i.groups[key] = g
	}
	return i, nil
}

// Name returns the name of its resources.
func (i Installation) Name() string { return i.name }

// Group returns the resource group for a subscription.
func (i Installation) Group(subscription string) (arm.ID, error) {
	group, known := i.groups[strings.ToLower(subscription)]
	if !known {
		return "", fmt.Errorf("subscription %s has resources to watch: name a resource group in "+
			"it, because an alert rule works only in its own subscription", subscription)
	}
	return group, nil
}

// Tags returns the tags of its resources.
func (i Installation) Tags() map[string]string {
	return map[string]string{tagBy: prefix, tagInstallation: i.name}
}

// mine reports whether a resource belongs to the installation: its name and its tags match.
func (i Installation) mine(d arm.Document) bool {
	var doc struct{ Tags map[string]string }
	if json.Unmarshal(d.Raw, &doc) != nil {
		return false
	}
	return strings.EqualFold(d.ID.Name(), i.name) && strings.EqualFold(doc.Tags[tagBy], prefix) &&
		strings.EqualFold(doc.Tags[tagInstallation], i.name)
}

// Webhook is where the action group posts events. ObjectID, Audience and Tenant make it a secure
// webhook, which logs in to Entra ID: the object ID of the listener's application, its application
// ID URI, and its tenant, empty for the subscription's.
type Webhook struct{ URL, ObjectID, Audience, Tenant string }

// ParseWebhook checks the address to post to. A secret is appended to the path, unless the path
// already contains it.
func ParseWebhook(address, secret string, w Webhook) (Webhook, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil ||
		u.RawQuery != "" || u.Fragment != "" {
		return w, fmt.Errorf("it is not an address to post events to, expected one such as " +
			"https://keeper.example.com/events") // it may hold a secret
	}
	host := u.Hostname()
	if u.Scheme == "http" && host != "localhost" && host != "127.0.0.1" && host != "::1" {
		return w, fmt.Errorf("http:// would send the caller's secret or token unencrypted, "+
			"expected https://%s", u.Host)
	}
	behind, found := afterLast(strings.TrimSuffix(u.Path, "/"), "/events")
	if !found || behind != "" &&
		(!strings.HasPrefix(behind, "/") || strings.Contains(behind[1:], "/")) {
		return w, fmt.Errorf("the keeper takes events at /events, expected https://%s/events",
			u.Host)
	}
	if secret != "" && behind != "" {
		return w, fmt.Errorf("it already contains a secret, and --event-secret-file names " +
			"another one")
	}
	if secret != "" {
		u.Path, behind = strings.TrimSuffix(u.Path, "/")+"/"+secret, "/"+secret
	}
	if err := w.Check(); err != nil {
		return w, err
	}
	if !w.Secure() && behind == "" {
		return w, fmt.Errorf("the keeper could not authenticate the caller: expected a secret " +
			"(--event-secret-file) or a secure webhook (--auth-audience, --auth-object-id)")
	}
	w.URL = u.String()
	return w, nil
}

// Check refuses an incomplete secure webhook.
func (w Webhook) Check() error {
	if (w.ObjectID != "" || w.Audience != "" || w.Tenant != "") &&
		(w.ObjectID == "" || w.Audience == "") {
		return fmt.Errorf("a secure webhook needs both --auth-audience and --auth-object-id: the " +
			"application ID URI and the object ID of the keeper's application")
	}
	return nil
}

func afterLast(s, sep string) (after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return "", false
	}
	return s[i+len(sep):], true
}

// Secure reports whether the webhook logs in to Entra ID.
func (w Webhook) Secure() bool { return w.ObjectID != "" }

// String returns the webhook without secret parts of its address.
func (w Webhook) String() string { return shown(w.URL) }

// shown returns an address without anything that may be secret.
func shown(address string) string {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "":
		return "…"
	case u.Path == "/events" && u.RawQuery == "":
		return u.Scheme + "://" + u.Host + u.Path
	}
	return u.Scheme + "://" + u.Host + "/…"
}

// Conceal removes secret parts of the webhook's address from a text: Azure repeats the address of a
// webhook that it refuses.
func (w Webhook) Conceal(text string) string {
	hide := func(secret, by string) {
		if secret != "" {
			text = regexp.MustCompile("(?i)"+regexp.QuoteMeta(secret)).ReplaceAllLiteralString(text,
				by)
		}
	}
	hide(w.URL, shown(w.URL))
	if behind, found := afterLast(w.URL, "/events/"); found {
		hide(behind, "…")
	}
	return text
}

// sorted lower-cases and sorts texts that are compared without case.
func sorted(texts []string) []string {
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = strings.ToLower(t)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
