package emulator

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// TestTagNames: a subscription has predefined tags, and lists those of its resources with them.
func TestTagNames(t *testing.T) {
	b := newBench(t, Options{})
	names := arm.ID("/subscriptions/" + sub + "/tagNames")
	for _, x := range []struct {
		method string
		path   arm.ID
		status int
	}{
		{http.MethodPut, "/env/tagValues/dev", 404}, {http.MethodDelete, "/env", 204},
		{http.MethodPut, "/env", 201}, {http.MethodPut, "/env", 200},
		{http.MethodPut, "/env/tagValues/dev", 201}, {http.MethodPut, "/env/tagValues/old", 201},
		{http.MethodDelete, "/env/tagValues/old", 200}, {http.MethodPut, "/gone", 201},
		{http.MethodDelete, "/gone", 200}, {http.MethodDelete, "/gone", 204},
	} {
		if status, _ := b.try(x.method, names+x.path, "2022-09-01", ""); status != x.status {
			t.Errorf("%s %s: %d, want %d", x.method, x.path, status, x.status)
		}
	}
	b.put(rt, `{"location":"westeurope","tags":{"env":"prod","team":"a"}}`)
	got := ""
	for _, tag := range kernel.ListAt(b.get(names), "value") {
		for _, value := range kernel.ListAt(tag, "values") {
			got += fmt.Sprint(tag["tagName"], "=", value["tagValue"], " ",
				kernel.ObjectAt(value, "count")["value"], "/",
				kernel.ObjectAt(tag, "count")["value"], " ")
		}
	}
	if want := "env=dev 0/1 env=prod 1/1 team=a 1/1 "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestRegistration: a resource provider is being registered for some time.
func TestRegistration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{OperationTime: time.Minute})
		provider := arm.ID("/subscriptions/" + sub + "/providers/Microsoft.Confluent")
		var states []any
		for _, verb := range []string{"register", "unregister", "register"} {
			_, _, doc := b.call(http.MethodPost, string(provider)+"/"+verb+"?api-version="+api, "")
			states = append(states, doc["registrationState"])
			time.Sleep(2 * time.Minute)
			states = append(states, b.get(provider)["registrationState"])
		}
		if got := fmt.Sprint(states); got != "[Registered Registered Unregistering Unregistered "+
			"Registering Registered]" {
			t.Error(got)
		}
	})
}
