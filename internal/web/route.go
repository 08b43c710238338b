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
func Route[I, T any](m *Mux, line string, rule access.Rule, h func(context.Context, *I) (T, error)) {
	register(m, line, rule, func(ctx context.Context, in *I) (*Reply[T], error) {
		data, err := h(ctx, in)
		if err != nil {
			return nil, err
		}
		return &Reply[T]{Data: data}, nil
	})
}

// RouteReply mounts a handler that chooses status, headers or list metadata.
func RouteReply[I, T any](m *Mux, line string, rule access.Rule, h func(context.Context, *I) (*Reply[T], error)) {
	register(m, line, rule, h)
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

func register[I, T any](m *Mux, line string, rule access.Rule, h func(context.Context, *I) (*Reply[T], error)) {
	method, path := splitLine(line)
	checkInput(reflect.TypeFor[I]())
	m.routes = append(m.routes, RouteInfo{Method: method, Path: path, Rule: rule})
	op := huma.Operation{
		OperationID:   operationID(method, path),
		Method:        method,
		Path:          path,
		Summary:       method + " " + path,
		Description:   "Access: " + rule.String() + ".",
		DefaultStatus: http.StatusOK,
		Tags:          []string{tag(path)},
		Metadata:      map[string]any{"rule": rule},
		Security:      security(rule),
	}
	huma.Register(m.api, op, func(ctx context.Context, in *I) (*output[T], error) {
		ctx, err := m.readmit(ctx, rule)
		if err != nil {
			return nil, toAnswer(ctx, err)
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
