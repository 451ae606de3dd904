package plan

import "testing"

func TestHarm(t *testing.T) {
	subnet := Change{Verb: Associate, Resource: nodesA, New: &Value{RouteTable: tableA},
		Why: "node subnet has lost its route table"}
	bare := subnet
	bare.Why = "asked for"
	route := func(verb Verb) Change { return Change{Verb: verb, Resource: tableA} }
	for want, changes := range map[string][]Change{
		"node subnet " + nodesA.Short() + " has lost its route table": {
			subnet},
		"subnet " + nodesA.Short() + " does not have the route table " + tableA.Short(): {bare},
		"route table " + tableA.Short() + " lacks 1 pod route": {
			route(Create)},
		"route table " + tableA.Short() + " lacks 2 pod routes and holds 1 stale pod route": {
			route(Create), route(Delete), route(Create)},
		"route table " + tableA.Short() + " has the wrong next hop in 1 pod route": {
			route(Update)},
	} {
		if got := Harm(changes); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
