package kernel

import (
	"maps"
	"slices"
	"strings"
)

// How it works. Azure takes the names of properties in any case, and answers in its own spelling.
// Clients do send another one: with the api-version 2022-01-01 the Azure CLI writes
// applicationGatewayIpConfigurations, because that is how the specification spells what Azure
// answers as applicationGatewayIPConfigurations (azure-rest-api-specs#20256,
// azure-sdk-for-net#30516). So every request is spelled before anything reads it, and what only
// Azure writes is dropped from the result.

// envelope are the names outside of properties that all types share.
var envelope = folded([]string{"id", "name", "type", "etag", "systemData", "location", "tags",
	"properties", "sku", "kind", "zones", "identity"})

// folded maps names in lower case to their spelling.
func folded(names []string) map[string]string {
	out := make(map[string]string, len(names))
	for _, name := range names {
		out[strings.ToLower(name)] = name
	}
	return out
}

// names are the properties of a kind that the emulator knows, in lower case, with their spelling.
// Without names of its service there are none: labels and tags in other documents are the client's.
func (kind *Kind) names(service []string) map[string]string {
	if len(service) == 0 {
		return nil
	}
	out := folded(service)
	add := func(path string) {
		for _, name := range strings.Split(strings.ReplaceAll(path, "[]", ""), ".") {
			out[strings.ToLower(name)] = name
		}
	}
	for _, f := range kind.Facts {
		add(f.Path)
	}
	for _, list := range kind.Lists {
		add(list.Name)
	}
	for _, name := range kind.ReadOnly {
		add(name)
	}
	return out
}

// spell changes the names in a request to Azure's spelling, as far as the emulator knows them.
func (kind *Kind) spell(body Object) {
	respell(body, envelope)
	if len(kind.spelling) == 0 {
		return
	}
	for name, value := range body {
		if name != "tags" { // their names are the client's own
			spellBelow(value, kind.spelling)
		}
	}
}

func spellBelow(value any, names map[string]string) {
	switch v := value.(type) {
	case Object:
		respell(v, names)
		for _, inner := range v {
			spellBelow(inner, names)
		}
	case []any:
		for _, inner := range v {
			spellBelow(inner, names)
		}
	}
}

// respell renames the keys of one object. A key that is spelled as Azure does wins.
func respell(o Object, names map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(o)) {
		name, known := names[strings.ToLower(key)]
		if !known || name == key {
			continue
		}
		if _, taken := o[name]; !taken {
			o[name] = o[key]
		}
		delete(o, key)
	}
}

// dropReadOnly removes what only Azure writes: clients send what they read.
func (kind *Kind) dropReadOnly(body Object) {
	for _, field := range []string{"id", "name", "type", "etag", "systemData"} {
		delete(body, field)
	}
	properties := ObjectAt(body, "properties")
	delete(properties, "provisioningState")
	for _, name := range kind.ReadOnly {
		delete(properties, name)
	}
}
