package emulator

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// ask makes a GET with a query and returns the documents of all pages.
func (b *bench) ask(path arm.ID, query string) (docs []kernel.Object, pages int) {
	b.t.Helper()
	for link := "http://h" + string(path) + "?api-version=2021-04-01&" +
		query; link != ""; pages++ {
		r := httptest.NewRequest(http.MethodGet, strings.ReplaceAll(link, " ", "%20"), nil)
		r.Header.Set("Authorization", "Bearer "+b.c.token)
		w := httptest.NewRecorder()
		b.e.ServeHTTP(w, r)
		doc, f := kernel.DecodeObject(w.Body.Bytes())
		if f != nil || w.Code != http.StatusOK {
			b.t.Fatalf("GET %s: %d %s", link, w.Code, w.Body)
		}
		if _, isList := doc["value"].([]any); !isList {
			b.t.Fatalf("GET %s has no list: %s", link, w.Body)
		}
		docs = append(docs, kernel.ListAt(doc, "value")...)
		link = kernel.Text(doc, "nextLink")
	}
	return docs, pages
}

func TestTags(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope","tags":{"a":"1","b":"2"},"properties":{"routes":[{"name":"r","properties":{"addressPrefix":"10.9.0.0/16","nextHopType":"None"}}]}}`)
	b.put(vnet, plainVNet)
	tags := func(id arm.ID) string { return string(kernel.Encode(b.get(id)["tags"])) }
	patch := func(id arm.ID, body string) {
		t.Helper()
		if status, code := b.try(http.MethodPatch, id, api, body); status != 200 {
			t.Errorf("PATCH %s %s: %d %s", id, body, status, code)
		}
	}
	etag := kernel.Text(b.get(rt), "etag")
	patch(rt, `{"tags":{"c":"3"},"properties":{"routes":[]}}`)
	if got := tags(rt); got != `{"c":"3"}` || kernel.Text(b.get(rt), "etag") == etag ||
		len(kernel.ListAt(b.properties(rt), "routes")) != 1 {
		t.Errorf("a PATCH of a table: %s", kernel.Encode(b.get(rt)))
	}
	subnet := kernel.Text(b.get(vnet.Child("subnets", "a")), "etag")
	patch(vnet, `{"tags":{"n":"1"}}`)
	if got := b.get(vnet.Child("subnets", "a")); kernel.Text(got, "etag") == subnet ||
		kernel.LinkOf(got, "routeTable") != rt {
		t.Errorf("the subnet of a patched network: %s", kernel.Encode(got))
	}
	patch(group, `{"tags":{"team":"net"}}`)
	b.refused(http.MethodPatch, vnet.Child("subnets", "a"), `{"tags":{}}`, 405, "MethodNotAllowed")
	b.refused(http.MethodPatch, rt+"x", `{"tags":{}}`, 404, "ResourceNotFound")
	b.refused(http.MethodPatch, rt, `{"tags":{"a":1}}`, 400, "InvalidTagValue")

	of := func(scope arm.ID) arm.ID { return scope + "/providers/Microsoft.Resources/tags/default" }
	patch(of(rt), `{"operation":"Merge","properties":{"tags":{"C":"4","d":"5"}}}`)
	if got := tags(rt); got != `{"c":"4","d":"5"}` {
		t.Errorf("merged: %s", got)
	}
	patch(of(rt), `{"operation":"Delete","properties":{"tags":{"c":"other","d":"5"}}}`)
	if got := string(kernel.Encode(b.properties(of(rt)))); got != `{"tags":{"c":"4"}}` {
		t.Errorf("deleted: %s", got)
	}
	patch(of(group), `{"operation":"Replace","properties":{"tags":{"x":"y"}}}`)
	if got := tags(group); got != `{"x":"y"}` {
		t.Errorf("replaced: %s", got)
	}
	b.put(of("/subscriptions/"+sub), `{"properties":{"tags":{"s":"t"}}}`)
	if got := tags("/subscriptions/" + sub); got != `{"s":"t"}` {
		t.Errorf("the subscription's: %s", got)
	}
	b.refused(http.MethodPatch, of(rt), `{"operation":"Sort","properties":{"tags":{}}}`, 400,
		"InvalidRequestContent")
	b.delete(of(rt))
	if got := tags(rt); got != `{}` {
		t.Errorf("all deleted: %s", got)
	}
}

func TestExistence(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	for id, want := range map[arm.ID]int{group: 204, group + "x": 404, rt: 204, rt + "x": 404} {
		if status, body := b.c.Do(http.MethodHead, id, "2021-04-01", nil); status != want ||
			len(body) != 0 {
			t.Errorf("HEAD %s: %d %s, want %d", id.Name(), status, body, want)
		}
	}
}

func TestResources(t *testing.T) {
	b := newBench(t, Options{PageSize: 4})
	if docs, _ := b.ask(group+"/resources", "$expand=provisioningState&$top=10"); len(docs) != 0 {
		t.Errorf("of an empty group: %v", names(docs))
	}
	b.put(rt, `{"location":"westeurope","tags":{"env":"prod"}}`)
	b.put(rt+"2", `{"location":"eastus","tags":{"env":"test"}}`)
	b.put(vnet, plainVNet)
	b.put(nsg, `{"location":"westeurope"}`)
	b.put(group+"/providers/Microsoft.Dashboard/grafana/g",
		`{"location":"westeurope","sku":{"name":"S"}}`)
	all := []string{"g", "nsg", "rt", "rt2", "vnet"}
	for filter, want := range map[string][]string{
		"": all,
		"resourceType eq 'microsoft.network/ROUTETABLES'":                       {"rt", "rt2"},
		"resourceType eq 'Microsoft.Network/routeTables' and name ne 'rt'":      {"rt2"},
		"location eq 'eastus' or resourceType eq 'Microsoft.Dashboard/grafana'": {"g", "rt2"},
		"substringof('T', name)":                  {"rt", "rt2", "vnet"},
		"tagName eq 'ENV' and tagValue eq 'prod'": {"rt"},
		"resourceGroup eq 'other'":                nil,
	} {
		for _, scope := range []arm.ID{group, "/subscriptions/" + sub} {
			docs, _ := b.ask(scope+"/resources", "$expand=provisioningState,createdTime&$filter="+
				url.QueryEscape(filter))
			if got := names(docs); !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", filter, got, want)
			}
			for _, doc := range docs {
				if doc["properties"] != nil ||
					kernel.Text(doc, "provisioningState") != "Succeeded" ||
					kernel.Text(doc, "createdTime") == "" || kernel.Text(doc, "location") == "" {
					t.Errorf("%s", kernel.Encode(doc))
				}
			}
		}
	}
	b.put(group+"2", `{"location":"westeurope","tags":{"env":"prod"}}`)
	for filter, want := range map[string][]string{"": {"net-rg", "net-rg2"},
		"tagname eq 'env' and tagvalue eq 'prod'": {"net-rg2"}} {
		if docs, _ := b.ask("/subscriptions/"+sub+"/resourceGroups", "$filter="+
			url.QueryEscape(filter)); !slices.Equal(names(docs), want) {
			t.Errorf("groups, %s: %v, want %v", filter, names(docs), want)
		}
	}
	if docs, pages := b.ask(group+"/resources", "$top=2"); len(docs) != 5 || pages != 3 {
		t.Errorf("%d in %d pages", len(docs), pages)
	}
	r := httptest.NewRequest(http.MethodGet, "http://h"+string(group)+
		"/resources?api-version=1&$filter=nonsense", nil)
	r.Header.Set("Authorization", "Bearer "+b.c.token)
	w := httptest.NewRecorder()
	if b.e.ServeHTTP(w, r); w.Code != 400 ||
		!strings.Contains(w.Body.String(), "InvalidFilterInQueryString") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestGroupDelete: one long operation; meanwhile the group is Deleting, with all its resources, and
// nothing can be created in it.
func TestGroupDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{OperationTime: 10 * time.Second})
		busy := func() { time.Sleep(10 * time.Second) }
		b.put(rt, `{"location":"westeurope"}`)
		busy()
		b.put(vnet, plainVNet)
		busy()
		b.put(nic, nicBody(ipConfiguration("c", "a", "")))
		b.put(aksID, fmt.Sprintf(existing, 2))
		busy()
		const managed = "/subscriptions/" + sub + "/resourceGroups/MC_net-rg_c_westeurope"
		status, _ := b.try(http.MethodDelete, group, "2021-04-01", "")
		if status != http.StatusAccepted ||
			kernel.Text(b.properties(group), "provisioningState") != "Deleting" {
			t.Errorf("DELETE: %d, %s", status, kernel.Encode(b.get(group)))
		}
		b.refused(http.MethodPut, rt+"2", `{"location":"westeurope"}`, 409,
			"ResourceGroupBeingDeleted")
		b.refused(http.MethodPatch, group, `{"tags":{}}`, 409, "ResourceGroupBeingDeleted")
		b.get(aksID)
		busy()
		for _, id := range []arm.ID{group, managed} {
			b.refused(http.MethodGet, id, "", 404, "ResourceGroupNotFound")
		}
		if docs, _ := b.ask("/subscriptions/"+sub+"/resources", ""); len(docs) != 0 {
			t.Errorf("left: %v", names(docs))
		}
		if n := len(b.e.network.Linked[rt.Key()]); n != 0 {
			t.Errorf("%d links to nothing", n)
		}
	})
}

// TestGroupDeleteBlocked: a resource that is used from outside stays, with the group; all others
// are deleted.
func TestGroupDeleteBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{OperationTime: 10 * time.Second})
		other := arm.ID(strings.Replace(string(group), "net-rg", "other", 1))
		b.put(other, `{"location":"westeurope"}`)
		b.put(rt, `{"location":"westeurope"}`)
		b.put(nsg, `{"location":"westeurope"}`)
		b.put(vnet, plainVNet)
		b.put(other+"/providers/Microsoft.Network/networkInterfaces/nic",
			nicBody(ipConfiguration("c", "a", "")))
		time.Sleep(10 * time.Second)
		r := httptest.NewRequest(http.MethodDelete, "http://h"+string(group)+
			"?api-version=2021-04-01&forceDeletionTypes=x", nil)
		r.Header.Set("Authorization", "Bearer "+b.c.token)
		w := httptest.NewRecorder()
		b.e.ServeHTTP(w, r)
		time.Sleep(10 * time.Second)
		if w.Header().Get("Azure-AsyncOperation") != "" { // a group's delete has only a Location
			t.Errorf("headers %v", w.Header())
		}
		u, err := url.Parse(w.Header().Get("Location"))
		if err != nil {
			t.Fatal(err)
		}
		status, doc := b.request(http.MethodGet, u.Path, u.Query(), "")
		if status != http.StatusConflict ||
			kernel.Text(doc, "error", "code") != "ResourceGroupDeletionBlocked" ||
			len(kernel.ListAt(doc, "error", "details")) != 2 {
			t.Errorf("%s", kernel.Encode(doc))
		}
		log, _ := b.ask("/subscriptions/"+sub+
			"/providers/Microsoft.Insights/eventtypes/management/values",
			"$filter=eventTimestamp%20ge%20'2000-01-01T00:00:00Z'%20and%20resourceUri%20eq%20'"+
				string(group)+"'")
		if len(log) < 3 || kernel.Text(log[0], "status", "value") != "Failed" ||
			kernel.Text(log[1], "status", "value") != "Accepted" {
			t.Errorf("the activity log: %s", kernel.Encode(log))
		}
		docs, _ := b.ask(group+"/resources", "")
		if got := names(docs); !slices.Equal(got, []string{"rt", "vnet"}) ||
			kernel.Text(b.properties(group), "provisioningState") != "Succeeded" {
			t.Errorf("left: %v, %s", got, kernel.Encode(b.get(group)))
		}
	})
}

// TestUnknownType stores unknown types, so that other people's configurations still apply.
func TestUnknownType(t *testing.T) {
	b := newBench(t, Options{})
	id := group + "/providers/Microsoft.Dashboard/grafana/g"
	b.put(id, `{"location":"westeurope","sku":{"name":"Standard"},"properties":{"x":[1,2]}}`)
	if doc := b.get(id); string(
		kernel.Encode(kernel.ObjectAt(doc, "properties")["x"])) != "[1,2]" ||
		kernel.Text(doc, "type") != "Microsoft.Dashboard/grafana" {
		t.Errorf("%s", kernel.Encode(doc))
	}
}
