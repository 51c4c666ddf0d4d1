package domain

import "fmt"

// Rules are everything that is in force at a time: what a policy file says.
type Rules struct {
	Policies      []Policy
	Routes        Routes
	ClientAddress ClientAddress
}

// Check reports with an *InvalidError what does not fit together: two policies of
// one name, or a route with a policy that does not exist.
func (r *Rules) Check() error {
	names := make(map[string]bool, len(r.Policies))
	for _, policy := range r.Policies {
		if names[policy.Name] {
			return &InvalidError{"policy", fmt.Sprintf("%s is defined twice", policy.Name)}
		}
		names[policy.Name] = true
	}
	for _, route := range r.Routes.All() {
		for _, name := range route.Policies {
			if !names[name] {
				return &InvalidError{"policies", fmt.Sprintf("of route %s name %q, which is not defined", route.Path, name)}
			}
		}
	}
	return r.ClientAddress.Check()
}
