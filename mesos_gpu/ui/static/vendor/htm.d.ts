declare const htm: { bind<R>(h: (...parts: any[]) => R): (texts: TemplateStringsArray, ...values: any[]) => R };
export default htm;
