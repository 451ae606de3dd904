package armtemplate

import (
	"fmt"
	"slices"
	"strings"
)

// checkParameters refuses the values that Azure refuses, with Azure's messages
// (template-parameters).
func (d *deployment) checkParameters() error {
	declared := d.template.Object("parameters")
	if d.outer != nil {
		return nil // its expressions see the parameters of the containing template
	}
	if d.given != nil {
		for _, m := range d.given.Members {
			if _, there := declared.Lookup(m.Name); !there {
				return fmt.Errorf(
					"the template parameters '%s' in the parameters file are not valid; they are "+
						"not present in the original template and can therefore not be provided "+
						"at deployment time. The only supported parameters for this template are "+
						"'%s'", shorten(m.Name), strings.Join(memberNames(declared), ", "))
			}
		}
	}
	if declared == nil {
		return nil
	}
	for _, m := range declared.Members {
		o, _ := m.Value.(*Object)
		if o == nil {
			return fmt.Errorf("the parameter '%s' is not an object", shorten(m.Name))
		}
		if err := d.checkParameter(m.Name, o); err != nil {
			return err
		}
	}
	return nil
}

func (d *deployment) checkParameter(name string, declared *Object) error {
	given, there := d.given.Lookup(name)
	if o, is := given.(*Object); is && there {
		if o.Member("value") == nil {
			return fmt.Errorf(
				"the parameter '%s' refers to a key vault, which is not read: pass its value",
				shorten(name))
		}
	}
	v, err := parameter(&scope{d: d}, name)
	if err != nil {
		return err
	}
	if u := d.unknownIn(v); u != nil {
		if !there && declared.Member("defaultValue") == nil {
			return fmt.Errorf(
				"the value for the template parameter '%s' at line '%d' is not provided",
				shorten(name), declared.Line)
		}
		if d.planning {
			return nil // known only once the resource that it reads exists
		}
		return fmt.Errorf("the value for the template parameter '%s' is not known: %s",
			shorten(name), u.Why)
	}
	if nullable, _ := declared.Get("nullable").(bool); v == nil && nullable {
		return nil
	}
	kind := d.typeOf(declared)
	// a user-defined type of the template has no token
	if want := tokens[strings.ToLower(kind)]; want != "" && want != tokenOf(v) {
		return fmt.Errorf(
			"the provided value for the template parameter '%s' is not valid. Expected a value "+
				"of type '%s', but received a value of type '%s'", shorten(name),
			strings.Replace(want, "String", "String, Uri", 1), tokenOf(v))
	}
	if allowed := declared.List("allowedValues"); allowed != nil {
		x := &scope{d: d}
		foreign := func(v any) bool {
			return !slices.ContainsFunc(allowed, func(a any) bool {
				same, known := x.sameValues(a, v)
				return same && known
			})
		}
		list, isList := v.([]any)
		if foreign(v) && (!isList || slices.ContainsFunc(list, foreign)) {
			var texts []string
			for _, a := range allowed {
				text, _ := x.written(a)
				texts = append(texts, text)
			}
			text, _ := x.written(v)
			return fmt.Errorf(
				"the provided value '%s' for the template parameter '%s' is not valid. The value "+
					"is not part of the allowed value(s): '%s'", shorten(text), shorten(name),
				strings.Join(texts, ","))
		}
	}
	return withinBounds(name, declared, v)
}

// withinBounds checks minValue, maxValue, minLength and maxLength.
func withinBounds(name string, declared *Object, v any) error {
	size, what := int64(0), "Length"
	switch v := v.(type) {
	case int64:
		size, what = v, "Value"
	case string:
		size = int64(len([]rune(v)))
	case []any:
		size = int64(len(v))
	default:
		return nil
	}
	if least, is := declared.Get("min" + what).(int64); is && size < least {
		return fmt.Errorf(
			"the provided value for the template parameter '%s' is not valid. %s of the value "+
				"should be greater than or equal to '%d'", shorten(name), what, least)
	}
	if most, is := declared.Get("max" + what).(int64); is && size > most {
		return fmt.Errorf(
			"the provided value for the template parameter '%s' is not valid. %s of the value "+
				"should be less than or equal to '%d'", shorten(name), what, most)
	}
	return nil
}

// tokens are Azure's names for parameter values, by the parameter's type.
var tokens = map[string]string{"string": "String", "securestring": "String", "int": "Integer",
	"bool": "Boolean", "array": "Array", "object": "Object", "secureobject": "Object"}

func tokenOf(v any) string {
	switch v.(type) {
	case nil:
		return "Null"
	case bool:
		return "Boolean"
	case int64:
		return "Integer"
	case float64:
		return "Float"
	case []any:
		return "Array"
	case *Object:
		return "Object"
	}
	return "String"
}

func memberNames(o *Object) []string {
	var out []string
	if o != nil {
		for _, m := range o.Members {
			out = append(out, m.Name)
		}
	}
	return out
}
