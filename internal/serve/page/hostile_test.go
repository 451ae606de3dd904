package page_test

import (
	"encoding/json"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
	"pgregory.net/rapid"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/serve/page"
)

// hostileName are names of markup, of code, of hidden characters and of any others.
var hostileName = rapid.Custom(func(t *rapid.T) string {
	part := rapid.OneOf(
		rapid.SampledFrom([]string{`"><zq a=b>`, `'><zq a=b>`, `<script>zq()</script>`, `</td></table>`,
			`</title><zq>`, `</svg><zq>`, `-->`, `<!--`, `]]>`, `" onload="zq()`, `' onload='zq()`,
			` onload=zq() `, "javascript:zq()", "&lt;zq&gt;", "&#60;zq&#62;", "{{.}}", "`${zq}`", `\`,
			"%3Czq%3E", "\x1b[31m", "\x1b]0;pwn\a", "\u009b2J", "\u202e", "\u2066", "\u200b",
			"\ufeff", "\x00", "\x7f", "\r", "\n", "\t", "\u2028", "\U000e0001", "\xff", "::error::x", "##[error]"}),
		rapid.String())
	return strings.Join(rapid.SliceOfN(part, 1, 4).Draw(t, "parts"), "")
})

// TestHostilePages: whatever the names of clusters, networks, tables and routes are, and whatever
// findings say, the pages have the elements and attributes that they have for harmless names, and
// hidden characters are shown as escapes.
func TestHostilePages(outer *testing.T) {
	harmlessPages := map[string]map[string]string{} // few names are harmless, and come often
	rapid.Check(outer, func(t *rapid.T) {
		name := "shop" + strings.ReplaceAll(hostileName.Draw(t, "name"), "/", "")
		// as long as the hostile one: drawings shorten names
		harmless := "shop" + strings.Repeat("x", max(0, len([]rune(finding.Show(name)))-4))
		if finding.Show(name) != name {
			harmless += "\u200b" // the same commands are withheld
		}
		bad, good := pagesOf(outer, name), harmlessPages[harmless]
		if good == nil {
			good = pagesOf(outer, harmless)
			harmlessPages[harmless] = good
		}
		for path, body := range bad {
			got, text := parsed(t, body)
			want, _ := parsed(t, good[path])
			if extra := missing(got, want); len(extra) > 0 {
				t.Errorf("%s of %q has %q in addition:\n%s", path, name, extra, body)
			}
			for line := range strings.Lines(strings.ReplaceAll(body, "\t", " ")) {
				// tabs and newlines are spaces in HTML
				if line = strings.TrimSuffix(line, "\n"); finding.Show(line) != line {
					t.Errorf("%s of %q: hidden characters in %q", path, name, line)
				}
			}
			if !strings.Contains(text, "shop") {
				t.Errorf("%s does not have the name: the test shows nothing:\n%s", path, body)
			}
		}
	})
}

// pagesOf are the pages of a cluster with lost and wrong routes, whose things all have a name.
func pagesOf(t *testing.T, name string) map[string]string {
	w := newSeen(t)
	inID := strings.TrimSpace(strings.Map(func(r rune) rune {
		_, err := arm.ParseID("/subscriptions/" + string(r))
		if err != nil || r > 0xffff || r == '/' {
			return -1 // no ID has it, and none is read
		}
		return r
	}, name))
	_ = w.cluster(1, inID, "kubenet", 3)
	gateway, target := subnetID("vnet", inID+"-gw"), tableID(inID+"-gw-rt")
	add := func(id arm.ID, properties map[string]any) {
		doc, err := json.Marshal(map[string]any{"id": id, "location": name,
			"properties": properties, "tags": map[string]string{name: name}})
		if err != nil {
			t.Fatal(err)
		}
		w.add("%s", doc)
	}
	add(gateway, map[string]any{"addressPrefix": "10.200.1.0/24"})
	routes := []any{}
	for i, prefix := range []string{"10.102.0.0/24", "10.102.9.0/24", "10.102.0.0/23"} {
		routes = append(routes, map[string]any{"name": name + strings.Repeat("x", i),
			"properties": map[string]any{"addressPrefix": prefix, "nextHopType": "VirtualAppliance",
				"nextHopIpAddress": "10.99.0.4"}})
	}
	add(target, map[string]any{"routes": routes})
	w.configs[0].Metadata.Name = name
	lost := tableID(inID + "-lost-rt")
	w.s.Unread[lost.Key()] = inventory.Unread{ID: lost, Status: 500, Code: name, Message: name}
	w.configs[0].Spec.Targets = append(w.configs[0].Spec.Targets,
		v1alpha1.Target{RouteTableID: string(lost)})
	r := w.result(time.Now())
	for i := range r.Changes {
		r.Changes[i].State, r.Changes[i].Error = plan.Failed, name
	}
	r.Woke = keeper.Cause{By: keeper.ByPerson, Caller: name}
	r.Findings = append(r.Findings, finding.New(finding.WriteRefused, name, string(gateway), "%s",
		name).With(name).WithFix("az network vnet show --ids %s", name).About(name))
	board := page.NewBoard()
	board.Record(r)
	board.Say(name)
	all := map[string]string{}
	for title, path := range map[string]string{"overview": "/", "search": "/?q=" +
		url.QueryEscape(name),
		"cluster": "/clusters/" + url.PathEscape(name), "no cluster": "/clusters/x" +
			url.PathEscape(name), "history": "/history?cluster=" + url.QueryEscape(name)} {
		all[title] = get(pages(board), path).body
	}
	return all
}

// parsed returns the elements of a page with the names of their attributes, and its text with
// their values.
func parsed(t *rapid.T, body string) (elements []string, text string) {
	root, err := html.Parse(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	var texts strings.Builder
	for n := range root.Descendants() {
		switch n.Type {
		case html.CommentNode:
			elements = append(elements, "a comment")
		case html.TextNode:
			texts.WriteString(n.Data)
		case html.ElementNode:
			shape := n.Data
			for _, a := range n.Attr {
				shape += " " + a.Key
				texts.WriteString(" " + a.Val)
				if link := a.Key == "href" || a.Key == "src" || a.Key == "action"; link &&
					!local.MatchString(a.Val) {
					t.Errorf("a link to %q", a.Val)
				}
			}
			elements = append(elements, shape)
		case html.ErrorNode, html.DocumentNode, html.DoctypeNode, html.RawNode: // none has a name
		}
	}
	return elements, texts.String()
}

// local are the links of pages: within the site, and to documentation.
var local = regexp.MustCompile(
	`^(/([^/\\]|$)|[?#]|https://(learn\.microsoft|github|portal\.azure)\.com/)`)

// missing are the elements of a list that another one does not have as often.
func missing(list, in []string) (all []string) {
	left := map[string]int{}
	for _, e := range in {
		left[e]++
	}
	for _, e := range list {
		if left[e]--; left[e] < 0 {
			all = append(all, e)
		}
	}
	return all
}
