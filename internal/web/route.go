package web

import (
	"context"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"certharbor.dev/certharbor/internal/access"
)

// Route mounts a handler whose value becomes {"data": value} with status 200.
// The input type carries path, query, header and Body fields with huma's tags.
func Route[I, T any](m *Mux, line string, rule access.Rule, h func(context.Context, *I) (T, error), options ...Option) {
	register(m, line, rule, func(ctx context.Context, in *I) (*Reply[T], error) {
		data, err := h(ctx, in)
		if err != nil {
			return nil, err
		}
		return &Reply[T]{Data: data}, nil
	}, options)
}

// RouteReply mounts a handler that chooses status, headers or list metadata.
func RouteReply[I, T any](m *Mux, line string, rule access.Rule, h func(context.Context, *I) (*Reply[T], error), options ...Option) {
	register(m, line, rule, h, options)
}

type envelope[T any] struct {
	Data     T        `json:"data"`
	Meta     *Meta    `json:"meta,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

type output[T any] struct {
	Status int
	Body   *envelope[T]
}

func register[I, T any](m *Mux, line string, rule access.Rule, h func(context.Context, *I) (*Reply[T], error), options []Option) {
	method, path := splitLine(line)
	checkInput(reflect.TypeFor[I]())
	info := RouteInfo{Method: method, Path: path, Rule: rule, Body: bodySize(reflect.TypeFor[I](), rule)}
	for _, option := range options {
		option(&info)
	}
	_, info.List = any(new(I)).(interface{ page() Page })
	m.routes = append(m.routes, info)
	op := huma.Operation{
		OperationID:   operationID(method, path),
		Method:        method,
		Path:          path,
		Summary:       method + " " + path,
		Description:   "Access: " + rule.String() + ".",
		DefaultStatus: http.StatusOK,
		Tags:          []string{tag(path)},
		Metadata:      map[string]any{"route": info},
		// guard has read the body; what huma would set for the reading is off.
		MaxBodyBytes: -1, BodyReadTimeout: -1,
		Security: security(rule),
	}
	huma.Register(m.api, op, func(ctx context.Context, in *I) (*output[T], error) {
		m.hasDecoded(ctx)
		if list, ok := any(in).(interface{ page() Page }); ok {
			if err := m.reserve(ctx, int64(2*list.page().Bytes())); err != nil {
				return nil, toAnswer(ctx, err)
			}
		}
		reply, err := h(ctx, in)
		if err != nil {
			return nil, toAnswer(ctx, err)
		}
		reply.writeHeader(ctx)
		if reply.Status == http.StatusNoContent {
			return &output[T]{Status: http.StatusNoContent}, nil
		}
		status := reply.Status
		if status == 0 {
			status = http.StatusOK
		}
		return &output[T]{Status: status, Body: &envelope[T]{Data: reply.Data, Meta: reply.Meta, Warnings: reply.Warnings}}, nil
	})
}

// bodySize is the default for an input type; without a body it is 0.
func bodySize(input reflect.Type, rule access.Rule) int64 {
	switch _, has := input.FieldByName("Body"); {
	case !has:
		return 0
	case rule.TakesNone():
		return PublicBody
	}
	return DefaultBody
}

func operationID(method, path string) string {
	id := strings.NewReplacer("/apiv1/users/{user_id}/", "-", "/apiv1", "", "{", "", "}", "", "/", "-", "_", "-").Replace(path)
	return strings.ToLower(method) + "-" + strings.TrimPrefix(id, "-")
}

// tag groups the document by the first word of the path that says something.
func tag(path string) string {
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/apiv1/users/{user_id}"), "/") {
		if part != "" && part != "apiv1" && !strings.HasPrefix(part, "{") {
			return part
		}
	}
	return "service"
}

// checkInput panics on an input type that embeds an unexported struct: huma
// passes over its fields in silence, so every id in it would be 0.
func checkInput(t reflect.Type) {
	for field := range t.Fields() {
		if field.Anonymous && field.PkgPath != "" && field.Type.Kind() == reflect.Struct && field.Type.NumField() > 0 {
			panic("web: " + t.String() + " embeds " + field.Type.String() + ", whose fields huma does not see; name the fields or export the type")
		}
	}
}
