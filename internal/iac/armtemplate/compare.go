package armtemplate

// sameValues compares two values, and reports whether the result is known. Text is case-sensitive.
func (x *scope) sameValues(a, b any) (same, known bool) {
	x.d.spend(1)
	if unknownOf([]any{a, b}) != nil {
		return false, false
	}
	s, isS := TextOf(a)
	t, isT := TextOf(b)
	if isS && isT {
		x.d.spend(len(s) / 64)
		_, opaqueA := a.(Opaque)
		_, opaqueB := b.(Opaque)
		return s == t, s == t || !opaqueA && !opaqueB
	}
	switch a := a.(type) {
	case []any:
		b, is := b.([]any)
		if !is || len(a) != len(b) {
			return false, true
		}
		known = true
		for i := range a {
			equal, sure := x.sameValues(a[i], b[i])
			if sure && !equal {
				return false, true
			}
			known = known && sure
		}
		return known, known
	case *Object:
		b, is := b.(*Object)
		if !is {
			return false, true
		}
		if a.Open != nil || b.Open != nil {
			return false, false
		}
		if len(a.Members) != len(b.Members) {
			return false, true
		}
		known = true
		for _, m := range a.Members {
			other, there := b.Lookup(m.Name)
			equal, sure := x.sameValues(m.Value, other)
			if !there || sure && !equal {
				return false, true
			}
			known = known && sure
		}
		return known, known
	}
	switch b.(type) {
	case []any, *Object:
		return false, true
	}
	return a == b, true
}

// unknownIn returns an unknown part of a value, or nil.
func (d *deployment) unknownIn(v any) (found *Unknown) {
	walk(v, func(part any) bool {
		d.spend(1)
		switch part := part.(type) {
		case *Unknown:
			found = part
		case Opaque:
			found = &Unknown{Why: "what " + shorten(string(part)) + " is, is not known"}
		case *Object:
			found = part.Open
		}
		return found == nil
	})
	return found
}
