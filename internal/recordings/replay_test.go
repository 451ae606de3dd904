package recordings

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/iac/armtemplate"
)

// replay is a recording being replayed against the emulator.
type replay struct {
	of           recording
	azure        *azure
	subscription string
	guids        map[string]string // from recorded to ours, in lower case
	names        map[string]string // from recorded text to ours
	machines     map[string]string // recorded instances of scale sets, in lower case, to ours
	sent         map[string]bool   // GUIDs that clients chose, which stay the same
	made         map[string]bool   // keys of existing resources
	deployed     map[string]bool   // by templates
	groups       map[string]bool   // of the recording
	deleted      map[string]bool   // groups that were deleted
	tainted      map[string]string // resources that differed, and how
	results      []*result
}

// result is the result of one call.
type result struct {
	call    *call
	row     string
	name    string // of the recording, and the call's number
	verdict string // ok, mismatch, consequence, timing, skip
	why     string
	status  [2]int
	code    [2]string
	// good says for each compared aspect whether it agreed.
	good map[string]bool
	diff differences
}

func newReplay(of recording, a *azure) *replay {
	return &replay{
		of: of, azure: a, subscription: emulator.DefaultSubscription, guids: map[string]string{},
		names: map[string]string{}, machines: map[string]string{}, sent: map[string]bool{},
		made: map[string]bool{}, deployed: map[string]bool{}, groups: map[string]bool{},
		deleted: map[string]bool{}, tainted: map[string]string{},
	}
}

// ours is a recorded text with our names.
func (r *replay) ours(s string) string {
	s = subscription.ReplaceAllString(s, "${1}"+r.subscription)
	if len(r.guids) > 0 {
		s = guid.ReplaceAllStringFunc(s, func(g string) string {
			if own := r.guids[strings.ToLower(g)]; own != "" {
				return own
			}
			return g
		})
	}
	s = instance.ReplaceAllStringFunc(s, func(id string) string {
		if own := r.machines[strings.ToLower(id)]; own != "" {
			return own
		}
		return id
	})
	for from, to := range r.names {
		s = strings.ReplaceAll(s, from, to)
	}
	return s
}

// learn notes which of our GUIDs and names correspond to recorded ones.
func (r *replay) learn(recorded, own string) {
	if len(recorded) > 4000 {
		return
	}
	a := guid.FindAllString(subscription.ReplaceAllString(recorded, ""), -1)
	b := guid.FindAllString(subscription.ReplaceAllString(own, ""), -1)
	if len(a) == len(b) {
		for i := range a {
			key := strings.ToLower(a[i])
			if !strings.EqualFold(a[i], b[i]) && strings.Trim(a[i], "0-") != "" &&
				r.guids[key] == "" &&
				!r.sent[key] {
				r.guids[key] = b[i]
			}
		}
	}
	if x, y := instance.FindString(recorded), instance.FindString(own); x != y &&
		shape(x, false) == shape(y, false) {
		r.machines[strings.ToLower(x)] = y
	}
	x, y := nodeNames.FindAllString(recorded, -1), nodeNames.FindAllString(own, -1)
	if len(x) == 1 && len(y) == 1 && x[0] != y[0] && x[0][:len(x[0])-8] == y[0][:len(y[0])-8] {
		r.names[x[0]] = y[0]
	}
}

func (r *replay) key(c *call) string {
	return strings.ToLower(strings.TrimRight(r.ours(c.request.path), "/"))
}

// prepare creates the groups that the recording presupposes. AKS creates node resource groups.
func (r *replay) prepare() {
	wanted, location, nodes := map[string]bool{}, map[string]map[string]any{}, map[string]bool{}
	var order []string
	spelled := map[string]string{}
	for _, c := range r.of.calls {
		for _, text := range []string{c.Body, c.Answer} {
			for _, part := range strings.Split(text, `"nodeResourceGroup":`)[1:] {
				if _, name, found := strings.Cut(part, `"`); found {
					name, _, _ = strings.Cut(name, `"`)
					nodes[strings.ToLower(name)] = true
				}
			}
		}
		m := groupInPath.FindStringSubmatch(c.request.path)
		if m == nil || c.request.kind == "other" {
			continue
		}
		key, own := strings.ToLower(m[1]), len(c.request.parts) == 4
		if _, known := wanted[key]; !known {
			begins := own &&
				(c.Method == http.MethodPut && c.Status != http.StatusOK ||
					c.Method != http.MethodPut && c.Status == http.StatusNotFound)
			wanted[key] = !begins &&
				!(c.Status == http.StatusNotFound &&
					strings.Contains(c.Answer, "ResourceGroupNotFound"))
			spelled[key], order = m[1], append(order, key)
		}
		if own && c.Status < 300 && location[key] == nil {
			if doc := object(decoded(c.Answer)); textOf(doc["location"]) != "" {
				location[key] = doc
			}
		}
	}
	for _, key := range order {
		r.groups[key] = true
		if !wanted[key] || nodes[key] || strings.HasPrefix(key, "mc_") {
			continue
		}
		body := map[string]any{"location": "westus"}
		for _, field := range []string{"location", "tags", "managedBy"} {
			if v := location[key][field]; v != nil {
				body[field] = v
			}
		}
		path := "/subscriptions/" + r.subscription + "/resourceGroups/" + spelled[key]
		if r.azure.do(
			http.MethodPut,
			path+"?api-version=2021-04-01",
			encoded(body),
			nil,
		).status < 300 {
			r.made[strings.ToLower(path)] = true
		}
	}
}

// keptHeaders are the relevant headers of a recorded request.
var keptHeaders = []string{
	"accept",
	"content-type",
	"if-match",
	"if-none-match",
	"x-ms-authorization-auxiliary",
	"aks-custom-headers",
}

// send makes a recorded call, as of its date.
func (r *replay) send(c *call) answer {
	header := map[string]string{emulator.AsOfHeader: r.dateOf(c)}
	for _, name := range keptHeaders {
		if v := c.Header[name]; v != "" {
			header[name] = r.ours(v)
		}
	}
	query := url.Values{}
	sent, _ := url.ParseQuery(c.request.raw)
	for k, all := range sent {
		for _, v := range all {
			query.Add(k, r.ours(v))
		}
	}
	return r.azure.do(c.Method, r.ours(c.request.path)+"?"+query.Encode(), r.ours(c.Body), header)
}

// dateOf is the date of a call: that of its answer, or of another call of the recording.
func (r *replay) dateOf(c *call) string {
	if d := c.AnswerHeader["date"]; d != "" {
		return d
	}
	for _, other := range r.of.calls {
		if d := other.AnswerHeader["date"]; d != "" {
			return d
		}
	}
	return ""
}

// run makes all calls of the recording.
func (r *replay) run() []*result {
	r.prepare()
	r.mapVersions()
	for i, c := range r.of.calls {
		for _, g := range guid.FindAllString(c.Body+c.request.path, -1) {
			if g = strings.ToLower(g); r.guids[g] == "" {
				r.sent[g] = true
			}
		}
		switch {
		case c.request.kind == "poll" || c.Status == 0:
		case !c.request.measured():
			r.context(c)
		default:
			out := r.measure(i, c)
			r.results = append(r.results, out)
		}
	}
	return r.results
}

// context makes an unmeasured call whose effect other calls need.
func (r *replay) context(c *call) {
	low := strings.ToLower(c.request.path)
	if strings.Contains(low, "/microsoft.resources/deployments/") {
		if c.Method == http.MethodPut && c.Status < 300 {
			r.deploy(c)
		}
		return
	}
	writes := c.Method == http.MethodPut || c.Method == http.MethodPatch ||
		c.Method == http.MethodDelete
	if c.request.kind != "arm" || !writes || c.Status >= 300 ||
		strings.Contains(low, "/microsoft.resources/") {
		return
	}
	now := r.send(c)
	key := r.key(c)
	switch {
	case now.status < 300:
		r.azure.follow(now)
		r.noteMade(c.Method, key)
		recorded, own := decoded(c.Answer), decoded(now.body)
		if object(recorded) != nil && object(own) != nil {
			r.compare(&differences{}, recorded, own, "", true, pairing{})
		}
	case c.Method != http.MethodDelete:
		code, _ := errorOf(now.body)
		r.tainted[key] = "an unmeasured " + c.Method + " failed here with " + code
	}
}

func (r *replay) noteMade(method, key string) {
	if method != http.MethodDelete {
		r.made[key] = true
		return
	}
	for other := range r.made {
		if other == key || strings.HasPrefix(other, key+"/") {
			delete(r.made, other)
		}
	}
}

// first are the types of a template's resources in order of creation: each type after the
// types that it uses.
var first = []string{
	"applicationsecuritygroups", "ddosprotectionplans", "routetables", "networksecuritygroups",
	"publicipprefixes", "publicipaddresses", "natgateways",
	"virtualnetworks", "userassignedidentities", "loadbalancers", "networkinterfaces",
	"applicationgateways",
}

// deploy creates the resources of a recorded template, unmeasured.
func (r *replay) deploy(c *call) {
	group := groupInPath.FindStringSubmatch(c.request.path)
	sent := object(object(decoded(r.ours(c.Body)))["properties"])
	raw, err := json.Marshal(sent["template"])
	if group == nil || err != nil {
		return
	}
	parsed, err := armtemplate.Parse("template", raw)
	template, isObject := parsed.(*armtemplate.Object)
	if err != nil || !isObject {
		return
	}
	var parameters *armtemplate.Object
	if given, err := armtemplate.Parse("parameters",
		[]byte(encoded(sent["parameters"]))); err == nil {
		parameters, _ = given.(*armtemplate.Object)
	}
	result, err := armtemplate.Evaluate(template, parameters, armtemplate.Options{
		Subscription: r.subscription, ResourceGroup: group[1], Location: "westus",
		DeploymentName: c.request.parts[len(c.request.parts)-1],
	})
	if err != nil {
		return
	}
	place := func(m *armtemplate.Resource) int {
		words := strings.Split(strings.ToLower(m.Type), "/")
		if i := slices.Index(first, words[min(1, len(words)-1)]); i >= 0 {
			return i
		}
		return len(first)
	}
	all := slices.Clone(result.Resources)
	slices.SortStableFunc(all, func(a, b *armtemplate.Resource) int { return place(a) - place(b) })
	for _, m := range all {
		if m.ID == "" || m.Existing ||
			strings.HasPrefix(strings.ToLower(m.Type), "microsoft.resources/") {
			continue
		}
		whole, _ := armtemplate.Plain(m.Body).(map[string]any)
		body := map[string]any{}
		for _, field := range []string{"location", "tags", "sku", "properties", "identity", "zones",
			"kind", "plan", "extendedLocation"} {
			if whole[field] != nil {
				body[field] = whole[field]
			}
		}
		now := r.azure.do(
			http.MethodPut,
			m.ID+"?api-version="+m.APIVersion,
			encoded(body),
			map[string]string{emulator.AsOfHeader: r.dateOf(c)},
		)
		if now.status < 300 {
			r.azure.follow(now)
			r.made[strings.ToLower(m.ID)], r.deployed[strings.ToLower(m.ID)] = true, true
		}
	}
}
