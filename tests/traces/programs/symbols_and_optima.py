"""Derives a formula with sympy, turns it into a function and minimises it with scipy."""
# needs: numpy, scipy, sympy

# %%
import numpy as np
import sympy as sp

x, y, a = sp.symbols("x y a", real=True)
energy = (x**2 + y - 11) ** 2 + (x + y**2 - 7) ** 2 + a * sp.cos(x)
print(energy.subs({x: 3, y: 2, a: 0}))

# %%
gradient = [sp.diff(energy, v) for v in (x, y)]
hessian = sp.hessian(energy, (x, y))
rule = {a: sp.Rational(1, 2)}
print(gradient[0].coeff(a))

# %%
f = sp.lambdify((x, y), energy.subs(rule))
starts = [(0.0, 0.0), (-3.0, 2.0), (4.0, -1.0)]
values = [round(float(f(*start)), 6) for start in starts]
print(values)

# %%
slopes = [sp.lambdify((x, y), part.subs(rule)) for part in gradient]


def jacobian(point):
    return np.array([slope(*point) for slope in slopes], dtype=float)


evaluations = 0


def objective(point):
    global evaluations
    evaluations += 1
    return float(f(*point))


# %%
from scipy import optimize

minima = [optimize.minimize(objective, start, jac=jacobian, method="BFGS") for start in starts]
best = min(minima, key=lambda found: found.fun)
points = np.array([found.x for found in minima])
print(points.round(3).tolist(), evaluations)

# %%
trail = []
polished = optimize.minimize(
    objective, best.x + 0.3, method="Nelder-Mead", callback=lambda at: trail.append(at.copy())
)
steps = len(trail)
trail = np.array(trail)
print(bool(np.allclose(polished.x, best.x, atol=1e-3)), steps > 5)

# %%
from scipy import integrate, interpolate, linalg, sparse

spline = interpolate.CubicSpline(np.arange(6), np.arange(6) ** 1.5)
area, _error = integrate.quad(spline, 0, 5)
laplace = sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(50, 50)).tocsr()
factor = linalg.cho_factor(laplace.toarray())
solution = linalg.cho_solve(factor, np.ones(50))
print(round(float(area), 4), round(float(solution.max()), 3))

# %%
roots = sp.solve(sp.Eq(x**3 - 2 * x, 0), x)
series = sp.series(sp.exp(x) * sp.sin(x), x, 0, 5)
matrix = sp.Matrix([[1, a], [a, 2]])
eigen = matrix.eigenvals()
print(roots, series)

# %%
rule[a] = sp.Integer(2)
shifted = energy.subs(rule)
change = [sp.simplify(shifted - energy).subs(x, 0), float(shifted.subs({x: 0, y: 0}))]
table = {str(k): v for k, v in eigen.items()}
laplace[0, 0] = 3.0
print(change, laplace[0, 0])
