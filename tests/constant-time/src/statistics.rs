//! Welch's t-test.

/// Mean and variance of a sequence (Welford's method).
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    fn push(&mut self, value: f64) {
        self.count += 1.0;
        let off = value - self.mean;
        self.mean += off / self.count;
        self.squares += off * (value - self.mean);
    }

    fn variance(&self) -> f64 {
        self.squares / (self.count - 1.0)
    }
}

/// Welch's t of two classes of times.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Welch([Moments; 2]);

impl Welch {
    pub(crate) fn push(&mut self, class: bool, value: f64) {
        self.0[usize::from(class)].push(value);
    }

    /// The distance of the means, in standard errors. None with fewer than two values of a class, or
    /// if neither class varies.
    pub(crate) fn t(&self) -> Option<f64> {
        let [a, b] = &self.0;
        if a.count < 2.0 || b.count < 2.0 {
            return None;
        }
        let error = (a.variance() / a.count + b.variance() / b.count).sqrt();
        (error > 0.0).then(|| (a.mean - b.mean) / error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn t(a: &[f64], b: &[f64]) -> Option<f64> {
        let mut welch = Welch::default();
        a.iter().for_each(|value| welch.push(false, *value));
        b.iter().for_each(|value| welch.push(true, *value));
        welch.t()
    }

    #[test]
    fn t_is_the_distance_of_the_means_in_standard_errors() {
        // Means 3 and 5, variances 2.5 and 4, so t = -2 / sqrt(2.5/5 + 4/3).
        let expected = -2.0 / (0.5_f64 + 4.0 / 3.0).sqrt();
        let found = t(&[1.0, 2.0, 3.0, 4.0, 5.0], &[3.0, 5.0, 7.0]).expect("both vary");
        assert!((found - expected).abs() < 1e-12, "{found}");
    }

    #[test]
    fn classes_without_variance_have_no_t() {
        assert_eq!(t(&[1.0, 1.0], &[1.0, 1.0]), None);
        assert_eq!(t(&[1.0, 2.0], &[1.0]), None);
    }
}
