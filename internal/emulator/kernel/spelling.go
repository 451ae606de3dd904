package kernel

import (
	"maps"
	"slices"
	"strings"
)

// How it works. Azure accepts the names of properties in any case, and answers in its own spelling.
// Clients do use another spelling. With the api-version 2022-01-01 the Azure CLI writes
// applicationGatewayIpConfigurations, as the specification spells what Azure answers as
// applicationGatewayIPConfigurations (azure-rest-api-specs#20256, azure-sdk-for-net#30516). So the
// spelling in every request is corrected before any code reads it, and read-only properties are
// dropped.

// envelope are the names outside of properties that all types share.
var envelope = func() names {
	n := names{}
	n.add("id", "name", "type", "etag", "systemData", "location", "tags", "properties", "sku",
		"kind", "zones", "identity")
	return n
}()

// names are the properties that a service knows, by their name in lower case. If the spelling or
// treatment of a property depends on its place, the name of the property that contains it comes
// first: identity.tenantid.
type names map[string]named

type named struct {
	spelling string
	// mark is '!' if only Azure writes the property, '*' if the client chooses the keys of its
	// value, and '#' if the whole value is the client's.
	mark byte
}

// add reads names with their marks: aadProfile fqdn! nodeLabels* identity.tenantId!
func (n names) add(words ...string) {
	for _, word := range words {
		name := strings.TrimRight(word, "!*#")
		_, spelling, below := strings.Cut(name, ".")
		if !below {
			spelling = name
		}
		as := named{spelling: spelling}
		if name != word {
			as.mark = word[len(name)]
		}
		n[strings.ToLower(name)] = as
	}
}

func (n names) of(below, name string) (named, bool) {
	if as, known := n[below+"."+strings.ToLower(name)]; known {
		return as, true
	}
	as, known := n[strings.ToLower(name)]
	return as, known
}

// namesOf returns the properties that a service knows. Without a list there are none: labels and
// tags in other documents are the client's.
func namesOf(service string) names {
	if service == "" {
		return nil
	}
	n := names{}
	n.add(append(strings.Fields(service), "provisioningState!")...)
	return n
}

// names returns the properties of a kind that the emulator knows: of its service, and its own. The
// kinds of a service share one map until a kind has names of its own.
func (kind *Kind) names(service names) names {
	if service == nil {
		return nil
	}
	out, shared := service, true
	own := func(path string) {
		for _, name := range strings.Split(strings.ReplaceAll(path, "[]", ""), ".") {
			if as := out[strings.ToLower(name)]; as.spelling != name {
				if shared {
					out, shared = maps.Clone(service), false
				}
				out.add(name)
			}
		}
	}
	for _, f := range kind.Facts {
		own(f.Path)
	}
	for _, list := range kind.Lists {
		own(list.Name)
	}
	for _, name := range kind.ReadOnly {
		own(name)
	}
	return out
}

// Accept treats a request as Azure does: it gives names Azure's spelling, as far as the emulator
// knows them, and drops what only Azure writes. Clients send back what they read, including such
// fields.
func (kind *Kind) Accept(body Object) {
	respell(body, "", envelope)
	respell(body, "", kind.spelling)
	for name, value := range body {
		if name != "tags" { // their names are the client's own
			kind.spelling.spellBelow(strings.ToLower(name), value)
		}
	}
}

// spellBelow spells the value of a property, which may be a list of values, or a map of them.
func (n names) spellBelow(name string, value any) {
	as, _ := n.of("", name)
	if o, isObject := value.(Object); isObject && as.mark == '*' {
		for _, inner := range o {
			n.spellValue(name, inner)
		}
	} else if as.mark != '#' {
		n.spellValue(name, value)
	}
}

func (n names) spellValue(name string, value any) {
	switch v := value.(type) {
	case Object:
		respell(v, name, n)
		for key, inner := range v {
			n.spellBelow(strings.ToLower(key), inner)
		}
	case []any:
		for _, inner := range v {
			n.spellValue(name, inner)
		}
	}
}

// respell renames the keys of one object, and drops what only Azure writes. A key in Azure's
// spelling wins over others.
func respell(o Object, below string, n names) {
	for _, key := range slices.Sorted(maps.Keys(o)) {
		as, known := n.of(below, key)
		switch {
		case known && as.mark == '!':
			delete(o, key)
		case known && as.spelling != key:
			if _, taken := o[as.spelling]; !taken {
				o[as.spelling] = o[key]
			}
			delete(o, key)
		}
	}
}

// dropReadOnly removes what only Azure writes in documents of the kind.
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
